"""A launcher inside a unit of systemd: what stopping the unit ends, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.tree.termination import KillPlan
from tests.vm.units import running_unit, stop

# argv: the folder of the run, its containment, a FIFO. The job exits 7 once the FIFO is opened for writing. Beside it, in the
# unit's own cgroup, a detached process that has no cgroup of its own.
_LAUNCHER = """
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn
from spurproc.core.tree.members import Containment
folder, containment, fifo = sys.argv[1:]
job = SpawnPlan(argv=["sh", "-c", 'read line <"$0"; exit 7', fifo])
launch_recorded(job, folder, containment=Containment(containment))
beside = spawn(SpawnPlan(argv=["sh", "-c", 'read line <"$0"', fifo], detach=True))
with open(folder + ".beside", "w") as file:
    file.write(str(beside.identity))
ready()
sys.stdin.read()
os.read(os.open(fifo, os.O_RDONLY), 1)
"""
_TIMEOUT_S = 60


def beside(folder: Path) -> ProcessIdentity:
    """The process that the launcher has left in its own cgroup."""
    return ProcessIdentity.from_text(Path(f"{folder}.beside").read_text(encoding="ascii"))


def stopped_launcher(folder: Path, containment: str) -> Path:
    """Launch from a unit with the default KillMode and stop that; the FIFO on which the job waits."""
    fifo = folder.with_name("fifo")
    os.mkfifo(fifo)
    with running_unit("launcher", _LAUNCHER, folder, containment, fifo) as unit:
        assert beside(folder).liveness() is Liveness.ALIVE
        stop(unit)
        assert beside(folder).liveness() is Liveness.GONE
    return fifo


def test_a_run_lives_on_when_its_launchers_unit_is_stopped(tmp_path: Path) -> None:
    """What stood in the unit's cgroup is gone; the run, under a root outside of it, ends in its own time, and that is known."""
    fifo = stopped_launcher(tmp_path / "run", "cgroup")
    with RecordedRun.open(tmp_path / "run") as run:
        assert run.liveness() is Liveness.ALIVE
        fifo.write_bytes(b"\n")
        end = run.wait(_TIMEOUT_S)
        assert (end.kind, end.code) == (ExitKind.EXITED, 7)
        run.remove()


def test_without_a_cgroup_the_run_ends_with_the_unit(tmp_path: Path) -> None:
    """Recorder and job stand in the unit: nothing of it lives, and how it ended is what systemd sent, or not known."""
    stopped_launcher(tmp_path / "run", "descendants")
    with RecordedRun.open(tmp_path / "run") as run:
        end = run.exit_info()
        assert run.liveness() is not Liveness.ALIVE
        assert is_signalled_by_systemd(end) or end.kind is ExitKind.UNKNOWN


def is_signalled_by_systemd(end: ExitInfo) -> bool:
    """KillMode=control-group: SIGTERM to all, and SIGKILL to who is left. systemd.kill(5)."""
    return end.kind is ExitKind.SIGNALED and end.signal in (15, 9)


@pytest.mark.parametrize("containment", ["cgroup"])
def test_terminate_reaches_it_from_outside_of_the_unit(tmp_path: Path, containment: str) -> None:
    """By whoever opens the run."""
    stopped_launcher(tmp_path / "run", containment)
    with RecordedRun.open(tmp_path / "run") as run:
        assert run.terminate(KillPlan.default()).empty
        assert run.wait(_TIMEOUT_S).signal == 15
        run.remove()
