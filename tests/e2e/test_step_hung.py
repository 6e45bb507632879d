"""A supervisor that lives and says nothing holds up the step's end, until somebody ends it: then the step goes on without it."""

from __future__ import annotations

import select
import signal
from pathlib import Path

import pytest

from spurproc import AlreadyGone, Busy, ExitSource, Hook, InvalidArgument, Liveness, Step, WaitTimeout
from tests.steps import WAIT_S, Gate, Steps

_UNANSWERED_S = 0.3


def _hang(steps: Steps, step: Step) -> None:
    with steps.descriptor(step).supervisor.open() as supervisor:
        supervisor.send_signal(signal.SIGSTOP)


@pytest.mark.needs_cgroup_v2
def test_one_that_hangs_is_ended_and_the_step_goes_on(steps: Steps, tmp_path: Path) -> None:
    """Its leader lives; its end is waited for by the host; its epilog is run once, by another supervisor."""
    go, ran = Gate(tmp_path / "go"), tmp_path / "ran"
    epilog = Hook(argv=("sh", "-c", f"echo epilog >>{ran}"))
    step = steps.launch(go.script("exit 3"), epilog=epilog)
    supervisor, leader = steps.descriptor(step).supervisor, steps.descriptor(step).leader
    _hang(steps, step)
    assert step.kill_hung_supervisor(unanswered_s=_UNANSWERED_S) == supervisor
    assert supervisor.liveness() is Liveness.GONE
    assert leader is not None
    assert leader.liveness() is Liveness.ALIVE
    go.open()
    end = step.wait(WAIT_S, completed=True)
    assert (end.code, end.source) == (3, ExitSource.WAITED)
    assert ran.read_text() == "epilog\n"


def test_one_that_hangs_over_an_end_holds_it_up_only_until_then(steps: Steps, tmp_path: Path) -> None:
    """Until then nobody can record it: the lock is still held."""
    go = Gate(tmp_path / "go")
    step = steps.launch(go.script("exit 4"))
    leader = steps.descriptor(step).leader
    assert leader is not None
    _hang(steps, step)
    with leader.open() as held:
        go.open()
        assert select.select([held], [], [], WAIT_S)[0]
    with pytest.raises(WaitTimeout):
        step.wait(_UNANSWERED_S)
    step.kill_hung_supervisor(unanswered_s=_UNANSWERED_S)
    end = step.wait(WAIT_S)
    assert (end.code, end.source) == (4, ExitSource.WAITED)


def test_one_that_answers_is_left_alone(steps: Steps, tmp_path: Path) -> None:
    go = Gate(tmp_path / "go")
    step = steps.launch(go.script())
    with pytest.raises(Busy, match="it answers"):
        step.kill_hung_supervisor()
    assert step.status().supervised
    go.open()
    assert step.wait(WAIT_S).code == 0


def test_one_that_is_dead_is_not_killed_again(steps: Steps, tmp_path: Path) -> None:
    go = Gate(tmp_path / "go")
    step = steps.launch(go.script())
    steps.kill(steps.descriptor(step).supervisor)
    with pytest.raises(AlreadyGone, match="is gone"):
        step.kill_hung_supervisor(unanswered_s=_UNANSWERED_S)
    go.open()
    assert step.wait(WAIT_S).code == 0


@pytest.mark.parametrize("unanswered_s", [0, -1, float("nan")])
def test_no_time_is_no_time(steps: Steps, tmp_path: Path, unanswered_s: float) -> None:
    go = Gate(tmp_path / "go")
    step = steps.launch(go.script())
    with pytest.raises(InvalidArgument, match="unanswered_s"):
        step.kill_hung_supervisor(unanswered_s=unanswered_s)
    go.open()
    step.wait(WAIT_S)
