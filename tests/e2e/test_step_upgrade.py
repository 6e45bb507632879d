"""An upgrade under live steps: the package is deleted and another release put in its place, and every step ends truly."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc import Liveness, RuntimeId
from spurproc.proto.codec import PROTOCOL_VERSION
from spurproc.proto.messages import Launch
from spurproc.proto.step_folder import StateFolder
from tests.host_peer import HostPeer
from tests.releases import NEXT, Site
from tests.steps import WAIT_S, Steps

# What a program does that was written against whichever release is installed: launch, or wait for what is there.
_LAUNCH = """
import sys
from spurproc import SpawnPlan
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.proto.runtime_id import RuntimeId
state, job, step, go = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
script = f"until [ -e {go} ]; do sleep 0.01; done; exit {40 + step}"
launch(StepSpec(runtime_id=RuntimeId(job, 1, step), plan=SpawnPlan(argv=["sh", "-c", script])), state)
"""
_WAIT = """
import sys
from spurproc.client.step import Step
from spurproc.proto.runtime_id import RuntimeId
end = Step.open(sys.argv[1], RuntimeId(int(sys.argv[2]), 1, int(sys.argv[3]))).wait(60, completed=True)
print(end.code, end.source.value)
"""


@pytest.fixture
def site(tmp_path: Path, steps: Steps) -> Iterator[Site]:
    """With the release that is tested; whichever is installed at the end ends what was launched."""
    made = Site(tmp_path / "site")
    made.install()
    yield made
    made.end_all(steps.path)
    shutil.rmtree(steps.path)


def older_answer_to_a_launch(steps: Steps) -> bytes:
    """What the host of this very release says to the launcher of a step."""
    ours, theirs = socket.socketpair()
    with ours, theirs, HostPeer(steps.path) as peer, StateFolder.open(steps.path) as state:
        ours.settimeout(WAIT_S)
        peer.say(Launch(runtime_id=RuntimeId(3, 1, 0)), (state.folder.fileno(), state.folder.fileno(), theirs.fileno()))
        return ours.recv(1 << 12)


def test_the_package_is_replaced_under_live_steps(steps: Steps, site: Site, tmp_path: Path) -> None:
    """The newer client speaks to the older supervisors; a step is launched beside them; the older host ends with its last."""
    go = tmp_path / "go"
    for number in range(3):
        site.run(_LAUNCH, steps.path, 1, number, go)
    older = steps.descriptor_of(1, 1, 0).host
    site.install(NEXT)
    site.run(_LAUNCH, steps.path, 2, 0, go)
    newer = steps.descriptor_of(2, 1, 0)
    assert newer.v == PROTOCOL_VERSION + 1
    assert newer.host != older
    with older.open() as held:
        assert held.liveness() is Liveness.ALIVE
        assert b"it was told to end" in older_answer_to_a_launch(steps)
        go.touch()
        ends = [site.run(_WAIT, steps.path, *of).split() for of in ((1, 0), (1, 1), (1, 2), (2, 0))]
        assert ends == [["40", "waited"], ["41", "waited"], ["42", "waited"], ["40", "waited"]]
        held.wait(WAIT_S, reap_grace_s=0)


def test_an_older_supervisor_dies_and_its_host_records_for_the_newer_client(steps: Steps, site: Site, tmp_path: Path) -> None:
    """The newer host concludes nothing while the older one lives, and nobody spins: the record is waited for."""
    go = tmp_path / "go"
    site.run(_LAUNCH, steps.path, 1, 7, go)
    descriptor = steps.descriptor_of(1, 1, 7)
    site.install(NEXT)
    site.run(_LAUNCH, steps.path, 2, 0, go)
    steps.kill(descriptor.supervisor)
    go.touch()
    assert site.run(_WAIT, steps.path, 1, 7).split() == ["47", "waited"]
    assert descriptor.host != steps.descriptor_of(2, 1, 0).host
