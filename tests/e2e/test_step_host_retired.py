"""A host that was told to end while a step runs: it goes on for that step, and for no other."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from spurproc import ExitSource, Step, SystemCallError
from spurproc.core.process.pidfd import Pidfd
from spurproc.proto.messages import TakeOver
from tests.asleep import await_sleep
from tests.host_peer import HostPeer
from tests.steps import WAIT_S, Gate, Steps


def _told_to_end(steps: Steps, step: Step) -> Pidfd:
    """Its host, held: it has taken SIGTERM, and sleeps again."""
    host = steps.descriptor(step).host.open()
    host.send_signal(signal.SIGTERM)
    await_sleep(host.pid, "poll")
    return host


def test_it_is_the_witness_of_the_step_it_has(steps: Steps, tmp_path: Path) -> None:
    """Whoever waits reaches it when the supervisor has died, and what is owed is done by a successor that it forks."""
    go = Gate(tmp_path / "go")
    step = steps.launch(go.script("exit 6"))
    with _told_to_end(steps, step) as host:
        steps.kill(steps.descriptor(step).supervisor)
        with HostPeer(steps.path) as waiting:
            waiting.say(TakeOver(runtime_id=step.runtime_id))
            go.open()
            waiting.hear()
        end = step.wait(WAIT_S, completed=True)
        assert (end.code, end.source) == (6, ExitSource.WAITED)
        step.acknowledge()
        host.wait(WAIT_S, reap_grace_s=0)


def test_it_launches_nothing_more_and_another_one_does_after_it(steps: Steps, tmp_path: Path) -> None:
    go = Gate(tmp_path / "go")
    step = steps.launch(go.script())
    with _told_to_end(steps, step) as host:
        with pytest.raises(SystemCallError, match="the host refuses: it was told to end"):
            steps.launch(["true"])
        assert [path.name for path in (steps.path / "runtime").iterdir()] == [str(step.runtime_id)]
        go.open()
        step.wait(WAIT_S, completed=True)
        step.acknowledge()
        host.wait(WAIT_S, reap_grace_s=0)
    assert steps.launch(["true"]).wait(WAIT_S).succeeded
