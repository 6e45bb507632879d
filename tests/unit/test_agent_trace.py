"""What is remembered of a step beside its folder: whether that tells that nothing of it lives."""

from __future__ import annotations

import subprocess

from spurproc import Containment, Liveness, ProcessIdentity
from spurproc.agent.attempts.trace import Trace
from spurproc.core.vantage import read_boot_id
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.runtime_id import BATCH_STEP

ANOTHER_BOOT = b"00000000-0000-4000-8000-000000000000"


def _of_one_that_has_ended() -> ProcessIdentity:
    with subprocess.Popen(["sleep", "600"]) as process:
        identity = ProcessIdentity.of(process.pid)
        process.kill()
    assert identity.liveness() is Liveness.GONE
    return identity


def test_without_a_cgroup_nobody_can_tell_before_the_next_boot() -> None:
    """Its leader and its supervisor are gone; what the leader has started need not be."""
    gone = _of_one_that_has_ended().to_text()
    content = encode(
        Descriptor(
            runtime_id=AttemptId(1, 1).step(BATCH_STEP),
            supervisor_text=gone,
            host_text=gone,
            leader_text=gone,
            containment=Containment.DESCENDANTS,
        )
    )
    assert not Trace(content).is_gone
    assert Trace(content.replace(read_boot_id().encode(), ANOTHER_BOOT)).is_gone
    assert not Trace().is_gone


def test_one_of_which_only_the_boot_is_known_is_gone_with_that() -> None:
    """Until then nobody can tell, nor find it."""
    noted = Trace.of_this_boot()
    assert (noted.is_empty, noted.is_gone, noted.cgroup, noted.leader) == (True, False, None, None)
    assert Trace(noted.content.replace(read_boot_id().encode(), ANOTHER_BOOT)).is_gone
