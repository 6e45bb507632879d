"""Ending a supervised step: its whole tree, and no earlier than its end is known."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from spurproc import AlreadyGone, ExitInfo, ExitKind, ExitSource, KillPlan, Liveness, Route, Step, WaitTimeout
from spurproc.core.process.identity import ProcessIdentity
from spurproc.proto.messages import Subscribe
from spurproc.proto.step_state import StepState
from tests.fifo import Gate, Told
from tests.step_peer import StepPeer, until, wait_taken_over
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps

BOTH_WAYS = pytest.mark.parametrize(
    "bare", [pytest.param(False, marks=pytest.mark.needs_cgroup_v2), pytest.param(True, marks=pytest.mark.needs_root)]
)
TERM_THEN_KILL = KillPlan(steps=((15, 0.3), (9, None)))


def chosen(request: pytest.FixtureRequest, bare: bool) -> Steps:
    """Steps in cgroups, or without."""
    steps: Steps = request.getfixturevalue("bare_steps" if bare else "steps")
    return steps


TREES = {
    "deaf": "trap '' TERM INT HUP; exec 3>{say}; echo up >&3; while :; do sleep 600; done",
    "deaf, in a session of its own": "exec 3>{say}; (trap '' TERM; setsid sh -c 'echo up >&3; sleep 600; :' &); exec sleep 600",
    "stops itself": "exec 3>{say}; echo up >&3; kill -STOP $$; exec sleep 600",
    "frozen below": "exec 3>{say}; sleep 600 & kill -STOP $!; echo up >&3; wait",
}


@BOTH_WAYS
@pytest.mark.parametrize("tree", TREES)
def test_a_tree_ends_whatever_it_does(request: pytest.FixtureRequest, told: Callable[[str], Told], tree: str, bare: bool) -> None:
    steps, say = chosen(request, bare), told("say")
    step = steps.launch(["sh", "-c", TREES[tree].format(say=say.path)], kill_plan=TERM_THEN_KILL)
    assert say.line() == "up"
    assert step.status().state is StepState.RUNNING
    step.terminate()
    end = step.wait(WAIT_S, completed=True)
    assert end.kind is ExitKind.SIGNALED
    assert end.source is ExitSource.WAITED
    say.wait_end()


@BOTH_WAYS
def test_a_leader_ends_while_a_grandchild_holds_its_output(
    request: pytest.FixtureRequest, tmp_path: Path, told: Callable[[str], Told], bare: bool
) -> None:
    """The end is known at once, and what outlives the leader is ended by the kill plan."""
    steps, say, out = chosen(request, bare), told("say"), tmp_path / "out"
    script = (
        f"(trap '' TERM; setsid sh -c 'exec 3>{say.path}; echo up >&3; sleep 600; sleep 600' &); read x <{say.path}.go; exit 6"
    )
    with Gate(Path(f"{say.path}.go")) as go:
        step = steps.launch(["sh", "-c", script], stdout=out, kill_plan=KillPlan(steps=((15, 60.0), (9, None))))
        assert say.line() == "up"
        go.open()
        assert step.wait(WAIT_S).code == 6
        assert step.status().state is StepState.EMPTYING
        step.terminate(KILL_AT_ONCE)
        assert step.wait(WAIT_S, completed=True).code == 6
    say.wait_end()


def test_a_time_limit_ends_it_and_says_so(steps: Steps, told: Callable[[str], Told]) -> None:
    say = told("say")
    step = steps.launch(["sh", "-c", f"exec 3>{say.path}; exec sleep 600"], time_limit_s=0.3, kill_plan=KILL_AT_ONCE)
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL
    terminating = steps.history(step).terminating
    assert terminating is not None
    assert terminating.why == "its time limit of 0.3 s is over"


@pytest.mark.parametrize("limit_s", [86400.0 * 60, 1e300])
def test_a_time_limit_may_be_longer_than_a_poll_can_wait(steps: Steps, gate: Callable[[str], Gate], limit_s: float) -> None:
    go = gate("go")
    step = steps.launch(
        ["sh", "-c", f"read x <{go.path}"], time_limit_s=limit_s, kill_plan=KillPlan(steps=((15, limit_s), (9, None)))
    )
    status = step.status()
    assert (status.state, status.supervised) == (StepState.RUNNING, True)
    go.open()
    assert step.wait(WAIT_S, completed=True).succeeded


def test_a_harder_plan_takes_the_place_of_the_one_that_is_walked(steps: Steps, told: Callable[[str], Told]) -> None:
    say = told("say")
    step = steps.launch(["sh", "-c", TREES["deaf"].format(say=say.path)], kill_plan=KillPlan(steps=((15, 600.0), (9, None))))
    assert say.line() == "up"
    step.terminate()
    assert step.status().state is StepState.STOPPING
    step.terminate(KILL_AT_ONCE)
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL


def test_of_two_plans_that_never_kill_the_one_that_is_over_earlier_is_walked(steps: Steps, told: Callable[[str], Told]) -> None:
    say = told("say")
    step = steps.launch(["sh", "-c", TREES["deaf"].format(say=say.path)], kill_plan=KillPlan(steps=((15, 600.0),)))
    assert say.line() == "up"
    step.terminate()
    step.terminate(KillPlan(steps=((15, 900.0),)))
    assert step.status().state is StepState.STOPPING
    step.terminate(KillPlan(steps=((15, 0.05),)))
    until(step, StepState.HELD)
    step.terminate(KILL_AT_ONCE)
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL


def _ends_while_it_is_told_to(step: Step, plan: KillPlan | None) -> ExitInfo:
    """Told again and again, long before its plan of 0.3 s is over."""
    given_up_s = time.monotonic() + WAIT_S
    while time.monotonic() < given_up_s:
        step.terminate(plan)
        with suppress(WaitTimeout):
            return step.wait(0.05, completed=True)
    raise AssertionError("it lives, and is told to end again and again")


@pytest.mark.parametrize("plan", [None, TERM_THEN_KILL, KillPlan(steps=((15, 600.0), (9, None))), KillPlan(steps=((15, None),))])
def test_who_asks_again_puts_nothing_off(steps: Steps, told: Callable[[str], Told], plan: KillPlan | None) -> None:
    """By its own plan, or by one that would come to SIGKILL later, or never."""
    say = told("say")
    step = steps.launch(["sh", "-c", TREES["deaf"].format(say=say.path)], kill_plan=TERM_THEN_KILL)
    assert say.line() == "up"
    step.terminate()
    assert _ends_while_it_is_told_to(step, plan).signal == signal.SIGKILL


def test_its_time_limit_waits_for_no_longer_plan(steps: Steps, told: Callable[[str], Told]) -> None:
    say = told("say")
    step = steps.launch(["sh", "-c", TREES["deaf"].format(say=say.path)], time_limit_s=1.0, kill_plan=KILL_AT_ONCE)
    assert say.line() == "up"
    step.terminate(KillPlan(steps=((15, 600.0), (9, None))))
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL


def test_a_plan_that_is_over_is_walked_again(steps: Steps, told: Callable[[str], Told]) -> None:
    """Whoever lives on behind it, and was told about."""
    say = told("say")
    script = f"trap 'echo term >&3' TERM; exec 3>{say.path}; echo up >&3; while :; do sleep 0.05; done"
    step = steps.launch(["sh", "-c", script], kill_plan=KillPlan(steps=((15, 0.0),)))
    assert say.line() == "up"
    with StepPeer(step).greet() as peer:
        peer.say(Subscribe(runtime_id=step.runtime_id))
        for _ in range(3):
            step.terminate()
            assert say.line() == "term"
            while not getattr(peer.hear(), "held_by", ()):
                pass
    step.terminate(KILL_AT_ONCE)
    assert step.wait(WAIT_S, completed=True).signal == signal.SIGKILL


def test_its_supervisor_is_told_to_end(steps: Steps, told: Callable[[str], Told]) -> None:
    """SIGTERM: the kill plan, the record, and it ends without being asked for anything more."""
    say = told("say")
    script = f"trap 'echo term >&3; exit 4' TERM; exec 3>{say.path}; echo up >&3; while :; do sleep 600 & wait $!; done"
    step = steps.launch(["sh", "-c", script])
    assert say.line() == "up"
    supervisor = steps.descriptor(step).supervisor
    with supervisor.open() as pidfd:
        pidfd.send_signal(signal.SIGTERM)
        assert say.line() == "term"
        pidfd.wait(WAIT_S)
    history = steps.history(step)
    assert history.end is not None
    assert (history.end.code, history.end.source) == (4, ExitSource.WAITED)
    assert history.terminating is not None
    assert history.terminating.why == "its supervisor was told to end"
    assert history.emptied is not None


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("plan", [TERM_THEN_KILL, KILL_AT_ONCE], ids=["term", "kill"])
@pytest.mark.parametrize("who", ["leader", "grandchild"])
def test_whoever_moves_out_of_the_cgroup_is_still_of_the_tree(
    steps: Steps, told: Callable[[str], Told], cgroup_root: Path, who: str, plan: KillPlan
) -> None:
    """As su(1) and PAM do it: found as a descendant, signalled, and named by the route of the report."""
    say = told("say")
    trap = "trap 'echo usr1 >&3' USR1; trap 'exit 8' TERM"
    move = f"echo 0 >{cgroup_root}/cgroup.procs; {trap}; exec 3>{say.path}; echo up >&3; while :; do sleep 600 & wait $!; done"
    script = move if who == "leader" else f"setsid sh -c '{move.replace(chr(39), chr(34))}' & wait; wait"
    step = steps.launch(["sh", "-c", script])
    assert say.line() == "up"
    done = step.signal(signal.SIGUSR1)
    assert done.signals is not None
    assert Route.DESCENDANTS in done.signals.route
    if who == "leader":
        assert say.line() == "usr1"
    step.terminate(plan)
    end = step.wait(WAIT_S, completed=True)
    assert end.source is ExitSource.WAITED
    say.wait_end()
    assert (cgroup_root / "cgroup.procs").read_text() == ""


@pytest.mark.needs_root
@BOTH_WAYS
@pytest.mark.own_pid_namespace(mount=True, timeout_s=120)
def test_a_storm_of_forks_is_over_soon(
    request: pytest.FixtureRequest, payload_program: Callable[[str], Path], told: Callable[[str], Told], bare: bool
) -> None:
    """As a user of its own, with a limit; deaf to SIGTERM. Each process ends once it has made two more."""
    steps, say = chosen(request, bare), told("say")
    storm = f"exec 3<>{say.path}; PAYLOAD_READY_FD=3 exec {payload_program('forker')} 54321 60"
    step = steps.launch(["sh", "-c", storm], kill_plan=TERM_THEN_KILL)
    assert step.wait(WAIT_S).succeeded, "the first one has made its two"
    step.terminate(KILL_AT_ONCE)
    step.wait(WAIT_S, completed=True)
    say.wait_end()


@pytest.mark.needs_root
def test_without_a_cgroup_a_tree_whose_supervisor_died_is_held(bare_steps: Steps, told: Callable[[str], Told]) -> None:
    """What the supervisor held together cannot be proven to be gone. It is shown, and let go of with its folder."""
    say = told("say")
    script = f"exec 3>{say.path}; (setsid sleep 600 &); echo up >&3; exec sleep 600"
    step = bare_steps.launch(["sh", "-c", script], kill_plan=KILL_AT_ONCE)
    assert say.line() == "up"
    descriptor = bare_steps.descriptor(step)
    assert descriptor.leader is not None
    bare_steps.kill(descriptor.supervisor)
    bare_steps.kill(descriptor.leader)
    end = step.wait(WAIT_S)
    assert (end.signal, end.source) == (signal.SIGKILL, ExitSource.WAITED)
    wait_taken_over(step)
    shown = until(step, StepState.HELD)
    assert shown.held_by == ("it cannot be proven that nothing of it is left",)
    assert step.status().liveness.liveness is Liveness.UNKNOWN, (
        "nothing that lives descends from the successor, and yet one does live"
    )
    successor = bare_steps.descriptor(step).supervisor
    assert successor != descriptor.supervisor
    with successor.open() as pidfd:
        shutil.rmtree(bare_steps.folder(step))
        pidfd.wait(WAIT_S)
    end_children(descriptor.host)
    say.wait_end()


def end_children(parent: ProcessIdentity) -> None:
    """Of one that is ours to look below. One that has just ended may be reaped meanwhile."""
    for number in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split():
        with suppress(AlreadyGone), ProcessIdentity.of(int(number)).open() as child:
            child.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("turn", range(10))
def test_a_leader_killed_by_request_has_ended_before_its_tree_is_empty(steps: Steps, turn: int) -> None:
    """Its cgroup is empty as soon as it is a zombie: that alone is no end, for its supervisor has not asked it yet."""
    step = steps.launch(["cat", "/dev/zero"])
    step.terminate(KILL_AT_ONCE)
    end = step.wait(WAIT_S, completed=True)
    assert (end.signal, end.source) == (9, ExitSource.WAITED)
    assert steps.events(step) == ["gate_opening", "launched", "terminating", "exit_observed", "emptied"]
