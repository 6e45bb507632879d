"""KeyboardInterrupt at every moment of `run`: whatever it was doing, nothing of the job lives when it is raised."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from spurproc.core.command import cgroup_job, kept_job
from spurproc.core.command import run as command
from spurproc.core.command.capture import Capture
from spurproc.core.command.run import run
from spurproc.core.spawn import spawn as spawn_module
from spurproc.core.spawn.clone_call import CloneRequest, CloneResult, clone
from spurproc.core.spawn.spawn import begin
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan, terminate_tree
from tests.spawning import in_child, no_child_is_left

SOURCES = str(Path(command.__file__).parent.parent)
KILL = KillPlan(steps=((9, None),))
STEPS = 200
"""How many moments are tried, spread over the whole run: a line about to be run, or a function about to return."""
_GONE_S = 2.0
_NOT_RUN_S = 0.3


class Interrupter:
    """Sends SIGINT at one moment of what is traced, once; counts the moments."""

    def __init__(self, moment: int) -> None:
        self.seen = 0
        self._moment = moment

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """See sys.settrace."""
        if not frame.f_code.co_filename.startswith(SOURCES) or frame.f_code.co_name == "__del__":
            return None
        if event in ("line", "return"):
            self.seen += 1
            if self.seen == self._moment:
                signal.raise_signal(signal.SIGINT)  # what its handler raises ends the tracing too
        return self


def interrupted(moment: int, containment: Containment) -> tuple[int, bool]:
    """How many moments there were, and whether it was raised. Asserts that no process has the job's descriptor any more."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    interrupter = Interrupter(moment)
    raised = False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(interrupter)
    try:
        run(["sh", "-c", "setsid sleep 1000 & exit 0"], kill_plan=KILL, pass_fds=[theirs], containment=containment)
    except KeyboardInterrupt:
        raised = True
    finally:
        sys.settrace(None)
    os.close(theirs)
    poll = select.poll()
    poll.register(ours, 0)
    assert poll.poll(_GONE_S * 1000), f"somebody lives on after an interrupt at moment {moment}"
    os.close(ours)
    return interrupter.seen, raised


@pytest.mark.parametrize(
    "containment", [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]
)
def test_an_interrupt_at_any_moment_leaves_nobody(monkeypatch: pytest.MonkeyPatch, containment: Containment) -> None:
    """Moments spread over all of the run, and every one of those in which the job comes to be held."""
    monkeypatch.setattr(command, "_LEFTOVER_GRACE_S", 0.0)

    def body() -> None:
        interrupted(0, containment)  # what is done once a process is behind us
        count, _ = interrupted(0, containment)
        assert count > STEPS
        raised = [interrupted(moment, containment)[1] for moment in range(1, count, max(1, count // STEPS))]
        assert raised.count(True) > len(raised) // 2
        if containment is Containment.CGROUP:
            no_child_is_left()

    in_child(body, timeout_s=120)


MODULES = pytest.mark.parametrize(
    ("containment", "module"),
    [pytest.param(Containment.CGROUP, cgroup_job, marks=pytest.mark.needs_cgroup_v2), (Containment.DESCENDANTS, kept_job)],
)


@MODULES
def test_a_job_that_was_never_held_never_ran(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, containment: Containment, module: ModuleType
) -> None:
    """An interrupt between its clone and the moment it is held: it stands at a gate, and ends there."""

    def begin_and_forget(*arguments: Any, **more: Any) -> None:
        starting, spawned = begin(*arguments, **more)
        poll = select.poll()
        poll.register(spawned.pidfd, select.POLLIN)
        poll.poll(_NOT_RUN_S * 1000)  # time enough to run and end, were there no gate
        starting.close()
        spawned.pidfd.close()
        raise KeyboardInterrupt

    def body() -> None:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        monkeypatch.setattr(module, "begin", begin_and_forget)
        with pytest.raises(KeyboardInterrupt):
            run(["touch", str(tmp_path / "ran")], pass_fds=[theirs], containment=containment)
        os.close(theirs)
        poll = select.poll()
        poll.register(ours, 0)
        assert poll.poll(_GONE_S * 1000)
        assert not (tmp_path / "ran").exists()
        if containment is Containment.CGROUP:
            no_child_is_left()

    in_child(body)


@MODULES
def test_another_interrupt_does_not_stop_the_cleaning_up(
    monkeypatch: pytest.MonkeyPatch, containment: Containment, module: ModuleType
) -> None:
    """Interrupted while it waits, and again while everything is killed."""
    left = [KeyboardInterrupt(), KeyboardInterrupt()]

    def interrupted_at_first(*arguments: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        return terminate_tree(*arguments, **more)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command._Watched, "wait", interrupt)
    monkeypatch.setattr(module, "terminate_tree", interrupted_at_first)
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    with pytest.raises(KeyboardInterrupt):
        run(["sleep", "1000"], pass_fds=[theirs], containment=containment)
    os.close(theirs)
    poll = select.poll()
    poll.register(ours, 0)
    assert poll.poll(0)
    assert not left
    os.close(ours)


def test_an_interrupt_while_all_is_let_go_of_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has ended well and its result is there: the interrupt is not swallowed for that."""
    interrupts, close = [KeyboardInterrupt()], Capture.close

    def interrupted_at_first(pipes: Capture) -> None:
        if interrupts:
            raise interrupts.pop()
        close(pipes)

    monkeypatch.setattr(Capture, "close", interrupted_at_first)
    with pytest.raises(KeyboardInterrupt):
        run(["true"], capture=True)
    assert not interrupts


@pytest.mark.parametrize(
    "containment", [pytest.param(Containment.CGROUP, marks=pytest.mark.needs_cgroup_v2), Containment.DESCENDANTS]
)
def test_an_interrupt_right_after_the_clone_loses_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, containment: Containment
) -> None:
    """It waits until all that the kernel gave is held: a pidfd that nobody knows of would stay open for ever."""

    def clone_and_be_interrupted(request: CloneRequest) -> CloneResult:
        result = clone(request)
        signal.raise_signal(signal.SIGINT)
        return result

    def body() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(["true"], containment=containment)  # what is opened once a process is behind us
        before = os.listdir("/proc/self/fd")
        monkeypatch.setattr(spawn_module, "clone", clone_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(["true"], containment=containment)
        assert os.listdir("/proc/self/fd") == before
        no_child_is_left()

    in_child(body)
