"""A supervised step says how it ended, by whatever way that becomes known, whoever died meanwhile."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from spurproc import ExitKind, ExitSource, Liveness
from tests.growth import Held, lasting_host, row
from tests.steps import WAIT_S, Gate, Steps

ENDS = [
    (["true"], ExitKind.EXITED, 0),
    (["sh", "-c", "exit 137"], ExitKind.EXITED, 137),
    (["sh", "-c", "kill -9 $$"], ExitKind.SIGNALED, signal.SIGKILL),
    (["sh", "-c", "trap 'exit 0' EXIT; kill -TERM $$; sleep 60"], ExitKind.SIGNALED, signal.SIGTERM),
]


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


@pytest.mark.parametrize("victims", [(), ("supervisor",), ("host",)])
def test_one_of_its_keepers_dies_and_the_end_is_waited_for(steps: Steps, tmp_path: Path, victims: tuple[str, ...]) -> None:
    """The tree lives on; the host is the parent of what its supervisor leaves."""
    go = tmp_path / "go"
    step = steps.launch(["sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; exit 41"])
    descriptor = steps.descriptor(step)
    steps.kill(*(getattr(descriptor, victim) for victim in victims))
    assert descriptor.leader is not None
    assert descriptor.leader.liveness() is Liveness.ALIVE
    go.touch()
    end = step.wait(WAIT_S)
    assert (end.code, end.source) == (41, ExitSource.WAITED)
    assert step.wait(WAIT_S, completed=True) == end


@pytest.mark.needs_facility("pidfd_exit_info")
def test_host_and_supervisor_die_and_a_new_host_holds_the_leader(steps: Steps, tmp_path: Path) -> None:
    """It is no parent of the leader: the kernel's record, read after the reap by init, is the source."""
    go = tmp_path / "go"
    step = steps.launch(["sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; exit 42"])
    descriptor = steps.descriptor(step)
    steps.kill(descriptor.supervisor, descriptor.host)
    steps.launch(["true"]).wait(WAIT_S)
    go.touch()
    end = step.wait(WAIT_S)
    assert end.code == 42
    assert end.source in (ExitSource.PIDFD, ExitSource.ZOMBIE)
    assert step.wait(WAIT_S, completed=True) == end


@pytest.mark.needs_facility("pidfd_exit_info")
def test_nobody_is_left_to_see_the_end(steps: Steps, tmp_path: Path) -> None:
    """Host and supervisor gone, and the leader reaped before anybody came: UNKNOWN, with the reason, and never a guess."""
    go = tmp_path / "go"
    step = steps.launch(["sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; exit 43"])
    descriptor = steps.descriptor(step)
    assert descriptor.leader is not None
    with descriptor.leader.open() as leader:
        steps.kill(descriptor.supervisor, descriptor.host)
        go.touch()
        assert leader.wait(WAIT_S).code == 43, "by the reap that this waits for"
    end = step.wait(WAIT_S)
    assert (end.kind, end.source) == (ExitKind.UNKNOWN, ExitSource.NONE)
    assert "its supervisor and host ended before the leader did" in (end.reason or "")


def test_a_row_of_steps_leaves_nothing_growing(steps: Steps, tmp_path: Path) -> None:
    """Neither in their host, nor in who launches them, nor cgroups and files. `make endurance` launches two thousand."""
    with lasting_host(steps, Gate(tmp_path / "gate")) as host:
        row(steps, 20)
        before = Held.now(steps, host)
        row(steps, 20)
        Held.now(steps, host).assert_no_more_than(before, growth_kib=512)
