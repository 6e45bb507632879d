"""A suspended step does nothing, keeps its resources, and still ends when it is told to."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import ExitSource, KillPlan
from spurproc.client.host_link import PROGRAM_VARIABLE
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.errors import Busy, WaitTimeout
from spurproc.proto.step_state import StepState
from tests import cgroup_folder
from tests.fifo import Gate, Told
from tests.pace import ahead, at_this_pace
from tests.relatives import NOBODY
from tests.step_peer import until
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps, host_with_mounts_of_its_own

BOTH_WAYS = pytest.mark.parametrize(
    "bare", [pytest.param(False, marks=pytest.mark.needs_cgroup_v2), pytest.param(True, marks=pytest.mark.needs_root)]
)
SPEAKS_ON_USR1 = (
    "trap 'echo usr1 >&3' USR1; trap 'echo term >&3; exit 9' TERM; exec 3>{}; echo up >&3; while :; do sleep 60 & wait $!; done"
)


def chosen(request: pytest.FixtureRequest, bare: bool) -> Steps:
    steps: Steps = request.getfixturevalue("bare_steps" if bare else "steps")
    return steps


def stopped(pid: int) -> bool:
    """By a signal: what a frozen cgroup holds is not shown as that. proc_pid_stat(5)"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@BOTH_WAYS
def test_a_suspended_step_acts_on_nothing_until_it_is_resumed(
    request: pytest.FixtureRequest, told: Callable[[str], Told], bare: bool
) -> None:
    """A signal that it is sent meanwhile waits. Frozen by its cgroup; stopped, one by one, where there is none."""
    steps, say = chosen(request, bare), told("say")
    step = steps.launch(["sh", "-c", SPEAKS_ON_USR1.format(say.path)])
    assert say.line() == "up"
    descriptor = steps.descriptor(step)
    assert descriptor.leader is not None
    step.suspend()
    assert step.status().state is StepState.SUSPENDED
    if bare:
        assert stopped(descriptor.leader.pid)
    else:
        assert descriptor.cgroup is not None
        with Cgroup.open(descriptor.cgroup.path) as cgroup:
            assert cgroup.events().read().frozen
    step.signal(signal.SIGUSR1)
    step.resume()
    assert step.status().state is StepState.RUNNING
    assert say.line() == "usr1"


@BOTH_WAYS
def test_one_that_is_told_to_end_while_suspended_acts_on_that(
    request: pytest.FixtureRequest, told: Callable[[str], Told], bare: bool
) -> None:
    """The kill plan wakes it: SIGTERM reaches its handler."""
    steps, say = chosen(request, bare), told("say")
    step = steps.launch(["sh", "-c", SPEAKS_ON_USR1.format(say.path)], kill_plan=KillPlan(steps=((15, 60.0), (9, None))))
    assert say.line() == "up"
    step.suspend()
    step.terminate()
    assert say.line() == "term"
    end = step.wait(WAIT_S, completed=True)
    assert (end.code, end.source) == (9, ExitSource.WAITED)


@BOTH_WAYS
def test_one_that_is_killed_while_suspended_has_ended(
    request: pytest.FixtureRequest, told: Callable[[str], Told], bare: bool
) -> None:
    """Not by its supervisor: a leader that dies under it leaves the state, and the rest of the tree is ended."""
    steps, say = chosen(request, bare), told("say")
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; sleep 600 & echo up >&3; wait"], kill_plan=KILL_AT_ONCE)
    assert say.line() == "up"
    leader = steps.descriptor(step).leader
    step.suspend()
    assert leader is not None
    steps.kill(leader)
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL
    say.wait_end()


def test_suspend_and_resume_are_refused_where_they_mean_nothing(steps: Steps, gate: Callable[[str], Gate]) -> None:
    go = gate("go")
    step = steps.launch(["sh", "-c", f"read x <{go.path}"], start=False)
    with pytest.raises(Busy, match="ready"):
        step.suspend()
    step.start()
    until(step, StepState.RUNNING)
    with pytest.raises(Busy, match="running"):
        step.resume()
    step.suspend()
    with pytest.raises(Busy, match="suspended"):
        step.suspend()
    step.resume()
    go.open()
    assert step.wait(WAIT_S).succeeded


def test_the_time_limit_goes_on_while_suspended(steps: Steps, told: Callable[[str], Told]) -> None:
    say = told("say")
    job = ["sh", "-c", f"exec 3>{say.path}; echo up >&3; exec sleep 600"]
    with ahead():  # or its time is over before it is suspended
        step = steps.launch(job, time_limit_s=at_this_pace(0.5), kill_plan=KILL_AT_ONCE)
        assert say.line() == "up"
        step.suspend()
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_a_step_of_another_user_is_suspended_as_well(steps: Steps, told: Callable[[str], Told]) -> None:
    """Its supervisor has kept the right to signal."""
    say = told("say")
    step = steps.launch(["sh", "-c", SPEAKS_ON_USR1.format(say.path)], user=NOBODY)
    assert say.line() == "up"
    step.suspend()
    step.signal(signal.SIGUSR1)
    step.resume()
    assert say.line() == "usr1"


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_who_runs_on_is_no_suspended_step(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], Told]
) -> None:
    """Where it cannot be frozen that is said, and the step is not shown as what it is not."""
    monkeypatch.setenv(PROGRAM_VARIABLE, str(host_with_mounts_of_its_own(tmp_path)))
    say = told("say")
    step = steps.launch(["sh", "-c", SPEAKS_ON_USR1.format(say.path)])
    assert say.line() == "up"
    there = f"/proc/{steps.descriptor(step).supervisor.pid}/ns/mnt"
    remount = ["nsenter", f"--mount={there}", "mount", "-o"]
    subprocess.run([*remount, "remount,bind,ro", str(cgroup_folder.mount())], check=True)
    with pytest.raises(Busy, match="Read-only file system"):
        step.suspend()
    assert step.status().state is StepState.RUNNING
    with pytest.raises(WaitTimeout):  # it can be followed: what was refused was one request
        step.wait(0.1)
    subprocess.run([*remount, "remount,bind,rw", str(cgroup_folder.mount())], check=True)
    step.suspend()
    assert step.status().state is StepState.SUSPENDED
