"""A supervised step says how it ended, by whatever way that becomes known, whoever died meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from spurproc import ExitKind, ExitSource, Liveness, RuntimeId, Step
from spurproc.core.facilities import MASK_VARIABLE
from tests.growth import Held, lasting_host, row
from tests.recording import adopting
from tests.steps import WAIT_S, Gate, Steps

ENDS = [
    (["true"], ExitKind.EXITED, 0),
    (["sh", "-c", "exit 137"], ExitKind.EXITED, 137),
    (["sh", "-c", "kill -9 $$"], ExitKind.SIGNALED, signal.SIGKILL),
    (["sh", "-c", "trap 'exit 0' EXIT; kill -TERM $$; sleep 60"], ExitKind.SIGNALED, signal.SIGTERM),
]


_LEFT = RuntimeId(7, 1, 0)


class Orphan(NamedTuple):
    """A step that nobody keeps; the pid of its leader, which the test may reap; what it waits for before it ends with 42."""

    step: Step
    leader: int
    gate: Gate


@pytest.mark.parametrize(("argv", "kind", "value"), ENDS)
def test_an_end_is_told_as_it_was(steps: Steps, argv: list[str], kind: ExitKind, value: int) -> None:
    end = steps.launch(argv).wait(WAIT_S)
    assert (end.kind, end.source) == (kind, ExitSource.WAITED)
    assert value in (end.code, end.signal)


def test_a_program_that_is_not_there_is_the_end_of_the_step(steps: Steps) -> None:
    end = steps.launch(["/no/such/program"]).wait(WAIT_S)
    assert (end.kind, end.stage, end.errno) == (ExitKind.NOT_STARTED, "EXEC", 2)
    assert "launched" not in steps.events(steps.launch(["/no/such/program"]))


def test_the_journal_tells_it_in_order(steps: Steps) -> None:
    step = steps.launch(["true"])
    step.wait(WAIT_S, completed=True)
    step.acknowledge()
    assert steps.events(step) == ["gate_opening", "launched", "exit_observed", "emptied", "acknowledged"]


def test_output_is_the_jobs_own(steps: Steps, tmp_path: Path) -> None:
    """Opened and written by the job: nothing of ours stands in between."""
    out = tmp_path / "out"
    step = steps.launch(["sh", "-c", "readlink /proc/self/fd/1; echo more >&2"], stdout=out, stderr=out)
    assert step.wait(WAIT_S).succeeded
    assert out.read_text() == f"{out}\nmore\n"


def launched_by_who_is_killed(steps: Steps, argv: list[str]) -> Step:
    """By a program that has SIGKILL right after its launch."""
    launcher = os.fork()
    if launcher == 0:
        try:
            steps.launch(argv, runtime_id=_LEFT)
            signal.raise_signal(signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]) == -signal.SIGKILL
    return steps.keep(Step.open(steps.path, _LEFT))


@pytest.mark.parametrize("launcher", ["lives", "killed"])
@pytest.mark.parametrize("victims", [(), ("supervisor",), ("host",)])
def test_one_of_its_keepers_dies_and_the_end_is_waited_for(
    steps: Steps, tmp_path: Path, victims: tuple[str, ...], launcher: str
) -> None:
    """The tree lives on; the host is the parent of what its supervisor leaves. Neither needs the launcher."""
    gate = Gate(tmp_path / "gate")
    argv = gate.script("exit 41")
    step = steps.launch(argv) if launcher == "lives" else launched_by_who_is_killed(steps, argv)
    descriptor = steps.descriptor(step)
    steps.kill(*(getattr(descriptor, victim) for victim in victims))
    assert descriptor.leader is not None
    assert descriptor.leader.liveness() is Liveness.ALIVE
    gate.open()
    end = step.wait(WAIT_S)
    assert (end.code, end.source) == (41, ExitSource.WAITED)
    assert step.wait(WAIT_S, completed=True) == end


@pytest.fixture
def orphan(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Orphan]]:
    """A step whose supervisor and host have been killed; its leader is our child now. The mask is that of its hosts."""

    def make(mask: str) -> Orphan:
        monkeypatch.setenv(MASK_VARIABLE, ",".join(filter(None, [os.environ.get(MASK_VARIABLE), mask])))
        gate = Gate(tmp_path / "gate")
        step = steps.launch(gate.script("exit 42"))
        descriptor = steps.descriptor(step)
        assert descriptor.leader is not None
        steps.kill(descriptor.host, descriptor.supervisor)  # or the host makes a successor
        return Orphan(step, descriptor.leader.pid, gate)

    with adopting():
        yield make
        steps.end_all()


@pytest.mark.needs_facility("pidfd_exit_info")
def test_host_and_supervisor_die_and_a_new_host_holds_the_leader(steps: Steps, orphan: Callable[[str], Orphan]) -> None:
    """It is no parent of the leader: the kernel's record, read after the reap by another, is the source."""
    of = orphan("")
    steps.launch(["true"]).wait(WAIT_S)
    of.gate.open()
    os.waitpid(of.leader, 0)
    end = of.step.wait(WAIT_S)
    assert (end.code, end.source) == (42, ExitSource.PIDFD)
    assert of.step.wait(WAIT_S, completed=True) == end


@pytest.mark.parametrize("mask", ["", "pidfd_exit_info"])
@pytest.mark.parametrize("held", [True, False], ids=["held", "found"])
def test_host_and_supervisor_die_and_nobody_reaps_the_leader(
    steps: Steps, orphan: Callable[[str], Orphan], mask: str, *, held: bool
) -> None:
    """Its zombie is the source, on every kernel, whether a new host held it before its end or has found it so."""
    of = orphan(mask)
    if held:
        steps.launch(["true"]).wait(WAIT_S)
    of.gate.open()
    os.waitid(os.P_PID, of.leader, os.WEXITED | os.WNOWAIT)
    end = of.step.wait(WAIT_S)
    assert (end.code, end.source) == (42, ExitSource.ZOMBIE)
    assert of.step.wait(WAIT_S, completed=True) == end


@pytest.mark.parametrize("mask", ["", "pidfd_exit_info"])
def test_nobody_is_left_to_see_the_end(orphan: Callable[[str], Orphan], mask: str) -> None:
    """Host and supervisor gone, and the leader reaped before anybody came: UNKNOWN, with the reason, and never a guess."""
    of = orphan(mask)
    of.gate.open()
    os.waitpid(of.leader, 0)
    end = of.step.wait(WAIT_S)
    assert (end.kind, end.source) == (ExitKind.UNKNOWN, ExitSource.NONE)
    assert "its supervisor and host ended before the leader did" in (end.reason or "")


def test_a_row_of_steps_leaves_nothing_growing(steps: Steps, tmp_path: Path) -> None:
    """Neither in their host, nor in who launches them, nor cgroups and files. `make endurance` launches two thousand."""
    with lasting_host(steps, Gate(tmp_path / "gate")) as host:
        row(steps, 20)
        before = Held.now(steps, host)
        row(steps, 20)
        Held.now(steps, host).assert_no_more_than(before, growth_kib=512)
