"""Hooks of a supervised step: each at most once, in a session and cgroup of its own, on record before it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc import ExitKind, Liveness
from spurproc.client.step import Step
from spurproc.proto.launch_record import Hook
from tests.fifo import Gate, Told
from tests.pace import ahead, at_this_pace
from tests.relatives import NOBODY
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps

BOTH_WAYS = pytest.mark.parametrize(
    "bare", [pytest.param(False, marks=pytest.mark.needs_cgroup_v2), pytest.param(True, marks=pytest.mark.needs_root)]
)


def sh(script: object, timeout_s: float = 60.0) -> Hook:
    return Hook(argv=("sh", "-c", str(script)), timeout_s=timeout_s)


def output(steps: Steps, step: Step, name: str) -> str:
    return (steps.folder(step) / f"{name}.out").read_text()


def test_they_run_before_the_leader_and_after_its_tree(steps: Steps, tmp_path: Path) -> None:
    """One after the other, each on record before the next: the file that all write to shows the order."""
    log = tmp_path / "log"
    step = steps.launch(
        ["sh", "-c", f"echo leader >>{log}; (setsid sh -c 'trap : TERM; echo child >>{log}' &); exit 5"],
        prolog=sh(f"echo prolog >>{log}"),
        epilog=sh(f"echo epilog $SPURPROC_STEP $SPURPROC_EXIT >>{log}"),
    )
    end = step.wait(WAIT_S, completed=True)
    assert end.code == 5
    lines = log.read_text().splitlines()
    assert lines[0] == "prolog"
    assert lines[-1] == f"epilog {step.runtime_id} exited 5"
    assert steps.events(step) == [
        *("hook_begun", "hook_completed"),
        *("gate_opening", "launched", "exit_observed", "emptied"),
        *("hook_begun", "hook_completed"),
    ]
    assert {name: end.code for name, end in steps.history(step).hooks_completed.items()} == {"prolog": 0, "epilog": 0}


@pytest.mark.needs_cgroup_v2
def test_one_has_a_session_and_a_cgroup_of_its_own_which_goes_with_it(steps: Steps) -> None:
    step = steps.launch(["true"], prolog=sh("cut -d' ' -f1,5,6 /proc/$$/stat; grep ^0:: /proc/$$/cgroup; exec 1>&-; ls >&2"))
    assert step.wait(WAIT_S, completed=True).succeeded
    pid_group_session, cgroup, *rest = output(steps, step, "prolog").splitlines()
    assert len(set(pid_group_session.split())) == 1
    record = steps.history(step).hooks_begun["prolog"].cgroup
    assert record is not None
    assert cgroup == f"0::{cgroup[3:]}"
    assert cgroup.endswith(record.path.rsplit("/hooks/")[1])
    assert rest, "standard error is kept as well"
    assert record.liveness() is Liveness.GONE
    assert not os.path.exists(record.path)


@pytest.mark.parametrize("prolog", [sh("echo no >&2; exit 3"), Hook(argv=("/no/such/program",)), sh("kill -9 $$")])
def test_a_prolog_that_fails_is_the_end_of_the_step(steps: Steps, tmp_path: Path, prolog: Hook) -> None:
    """The leader never runs, and the end says why. The epilog, which may have to undo something, does."""
    ran = tmp_path / "ran"
    step = steps.launch(["touch", str(ran)], prolog=prolog, epilog=sh("echo $SPURPROC_EXIT"))
    end = step.wait(WAIT_S, completed=True)
    assert end.kind is ExitKind.NOT_STARTED
    assert "its prolog did not succeed" in (end.reason or "")
    assert not ran.exists()
    events = steps.events(step)
    assert events[:3] == ["hook_begun", "hook_completed", "exit_observed"]
    assert "gate_opening" not in events
    assert steps.history(step).hooks_completed["epilog"].succeeded
    assert "not started" in output(steps, step, "epilog")


@BOTH_WAYS
def test_one_that_hangs_is_ended_when_its_time_is_over(
    request: pytest.FixtureRequest, told: Callable[[str], Told], bare: bool
) -> None:
    """With all that it has started, deaf to every signal but one."""
    steps: Steps = request.getfixturevalue("bare_steps" if bare else "steps")
    say = told("say")
    deaf = f"trap '' TERM INT HUP; exec 3>{say.path}; echo up >&3; setsid sleep 600 & setsid sleep 600"
    timeout_s = at_this_pace(0.5)
    with ahead():  # or its time is over before it says anything
        step = steps.launch(["true"], prolog=sh(deaf, timeout_s=timeout_s))
        assert say.line() == "up"
    end = step.wait(WAIT_S)
    assert end.kind is ExitKind.NOT_STARTED
    assert end.reason == f"its prolog did not succeed: killed by SIGKILL: its {timeout_s:g} s were over"
    say.wait_end()
    assert step.wait(WAIT_S, completed=True) == end


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@BOTH_WAYS
def test_what_one_leaves_behind_is_ended_before_anything_else_is_done(
    request: pytest.FixtureRequest, told: Callable[[str], Told], hook: str, bare: bool
) -> None:
    """A daemon: a session of its own, its parent gone. Without a cgroup it is known as a descendant."""
    steps: Steps = request.getfixturevalue("bare_steps" if bare else "steps")
    say = told("say")
    hooks: dict[str, Any] = {hook: sh(f"exec 3>{say.path}; (setsid sleep 600 &); echo left >&3; exit 0")}
    step = steps.launch(["true"], **hooks)
    assert say.line() == "left"
    assert step.wait(WAIT_S, completed=True).succeeded
    say.wait_end()
    assert steps.history(step).hooks_completed[hook].succeeded


@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_one_whose_supervisor_dies_is_never_run_again(
    steps: Steps, tmp_path: Path, told: Callable[[str], Told], hook: str
) -> None:
    """Nobody knows what it has done. Its cgroup is emptied, and then its result is UNKNOWN."""
    runs, say = tmp_path / "runs", told("say")
    hanging = sh(f"echo run >>{runs}; exec 3>{say.path}; (setsid sleep 600 &); echo up >&3; exec sleep 600")
    hooks: dict[str, Any] = {hook: hanging}
    step = steps.launch(["true"], start=False, **hooks)
    step.start()
    assert say.line() == "up"
    steps.kill(steps.descriptor(step).supervisor)
    end = step.wait(WAIT_S, completed=True)
    say.wait_end()
    assert runs.read_text() == "run\n"
    assert end.kind is (ExitKind.EXITED if hook == "epilog" else ExitKind.NOT_STARTED)
    completed = steps.history(step).hooks_completed[hook]
    assert (completed.kind, completed.reason) == (ExitKind.UNKNOWN, "its supervisor ended before it did")
    begun = steps.history(step).hooks_begun[hook].cgroup
    assert begun is None or begun.liveness() is Liveness.GONE


def test_a_step_that_is_told_to_end_while_its_prolog_runs_never_has_a_leader(
    steps: Steps, tmp_path: Path, told: Callable[[str], Told]
) -> None:
    ran, say = tmp_path / "ran", told("say")
    step = steps.launch(["touch", str(ran)], start=False, prolog=sh(f"exec 3>{say.path}; echo up >&3; exec sleep 600"))
    step.start()
    assert say.line() == "up"
    step.terminate(KILL_AT_ONCE)
    end = step.wait(WAIT_S, completed=True)
    say.wait_end()
    assert (end.kind, ran.exists()) == (ExitKind.NOT_STARTED, False)
    assert "its step was told to end" in (end.reason or "")


def test_its_supervisor_serves_while_one_runs(steps: Steps, told: Callable[[str], Told], gate: Callable[[str], Gate]) -> None:
    say, go = told("say"), gate("go")
    step = steps.launch(["true"], epilog=sh(f"echo up >{say.path}; read x <{go.path}; exit $x"))
    assert say.line() == "up"
    assert steps.reopen(step).status().state.value == "epilog"
    go.open("7")
    assert step.wait(WAIT_S, completed=True).succeeded
    assert steps.history(step).hooks_completed["epilog"].code == 7


@pytest.mark.needs_root
def test_they_run_as_the_supervisors_user_whole_again_after_it_has_lowered_itself(steps: Steps) -> None:
    """The leader runs as another; its supervisor has given up what it does not need. A hook may have to mount something."""
    step = steps.launch(
        ["id", "-u"], user=NOBODY, epilog=sh("id -u; grep CapEff /proc/self/status; cat /proc/self/oom_score_adj")
    )
    assert step.wait(WAIT_S, completed=True).succeeded
    uid, capabilities, score = output(steps, step, "epilog").splitlines()
    assert (uid, score) == ("0", "0")
    with open("/proc/self/status", encoding="ascii") as file:
        bounding = next(line.split()[1] for line in file if line.startswith("CapBnd"))
    assert capabilities.split()[1] == bounding


def test_one_ended_by_itself_says_by_what(steps: Steps) -> None:
    step = steps.launch(["true"], epilog=sh("kill -TERM $$; sleep 600"))
    assert step.wait(WAIT_S, completed=True).succeeded
    assert steps.history(step).hooks_completed["epilog"].signal == signal.SIGTERM


@pytest.mark.needs_cgroup_v2
def test_two_state_folders_do_not_meet_in_a_hook(
    steps: Steps, tmp_path: Path, told: Callable[[str], Told], gate: Callable[[str], Gate]
) -> None:
    """The same step id under one cgroup root: whoever clears one's hook away leaves the other's alone."""
    ours, theirs, go = told("ours"), told("theirs"), gate("go")
    others = Steps(tmp_path / "others")
    try:
        one = others.launch(["true"], start=False, prolog=sh(f"echo up >{theirs.path}; read x <{go.path}"))
        one.start()
        assert theirs.line() == "up"
        step = steps.launch(["true"], start=False, runtime_id=one.runtime_id, prolog=sh(f"echo up >{ours.path}; exec sleep 600"))
        step.start()
        assert ours.line() == "up"
        steps.kill(steps.descriptor(step).supervisor)
        step.wait(WAIT_S, completed=True)
        go.open()
        assert one.wait(WAIT_S, completed=True).succeeded
    finally:
        others.end_all()
