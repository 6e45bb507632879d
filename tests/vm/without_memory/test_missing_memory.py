"""A machine without the memory controller: nothing claims that memory is limited or counted, and the rest works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.command.run import run
from spurproc.core.exit_info import ExitKind
from spurproc.core.facilities import Facilities
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.errors import Unsupported
from tests import cgroup_folder

LIMITS = CgroupLimits(memory_max_bytes=16 << 20, pids_max=100)
KILL_ITSELF = ["sh", "-c", "kill -9 $$"]


@pytest.fixture
def job(cgroup_root: Path) -> Iterator[Cgroup]:
    """A cgroup whose parent has all controllers that there are."""
    for name in (cgroup_root / "cgroup.controllers").read_text().split():
        cgroup_folder.enable(name, cgroup_root)
    cgroup_folder.enable("pids", cgroup_root)
    with Cgroup.create(cgroup_root / "job") as cgroup:
        yield cgroup


def test_facilities_say_so() -> None:
    """Where one looks before one launches."""
    assert "memory" not in Facilities.current().controllers
    assert "pids" in Facilities.current().controllers


def test_required_limit_names_the_controller(job: Cgroup) -> None:
    """And sets none of the others."""
    with pytest.raises(Unsupported, match=r"cannot set memory.max of .*: no memory controller there"):
        job.set_limits(LIMITS)
    assert Path(job.path, "pids.max").read_text() == "max\n"


def test_best_effort_tells_what_is_not_enforced(job: Cgroup) -> None:
    """The others are set."""
    assert job.set_limits(LIMITS, required=False) == ("memory.max",)
    assert Path(job.path, "pids.max").read_text() == "100\n"


def test_run_does_not_say_that_nobody_was_killed_for_memory() -> None:
    """None, and not 0; all else as ever."""
    end = run(KILL_ITSELF)
    assert (end.kind, end.signal, end.oom_kills, end.containment) == (ExitKind.SIGNALED, 9, None, Containment.CGROUP)


def test_recorded_run_does_not_say_it_either(tmp_path: Path) -> None:
    """The root is made all the same."""
    assert find_cgroup_root() is not None
    with launch_recorded(SpawnPlan(argv=KILL_ITSELF), tmp_path / "run") as launched:
        end = launched.wait(60)
        assert (end.kind, end.signal, end.oom_kills) == (ExitKind.SIGNALED, 9, None)
        launched.remove()
