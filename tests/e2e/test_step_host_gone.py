"""A host that was killed is gone, although supervisors that it forked live on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from spurproc import ExitKind
from spurproc.client.host_link import HostLink
from spurproc.errors import SpurprocError
from spurproc.proto.messages import HostRequest
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps


def test_the_next_launch_does_not_wait_for_a_host_that_is_dead(steps: Steps) -> None:
    """A supervisor holds nothing of its host: neither the listener, at which nobody would answer, nor its lock."""
    step = steps.launch(["sleep", "1000"])
    steps.kill(steps.descriptor(step).host)
    assert steps.launch(["true"]).wait(WAIT_S).succeeded
    step.terminate(KILL_AT_ONCE)
    assert step.wait(WAIT_S).signal == 9


def test_a_host_that_ends_between_the_connection_and_the_question_is_not_the_last_word(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits asks the next one."""
    step = steps.launch(["sleep", "1000"])
    there = steps.descriptor(step)
    assert there.leader is not None
    steps.kill(there.host, there.supervisor, there.leader)
    send, killed = HostLink.send, 0

    def send_late(link: HostLink, request: HostRequest, fds: Sequence[int] = ()) -> None:
        nonlocal killed
        if not killed and (host := steps.host()) is not None:
            killed = host.pid
            host.send_signal(9)
            with host, suppress(SpurprocError):
                host.wait(WAIT_S, reap_grace_s=0)
        send(link, request, fds)

    monkeypatch.setattr(HostLink, "send", send_late)
    assert step.wait(WAIT_S).kind is not ExitKind.EXITED
    assert killed
