"""Limits of a cgroup: set, held to, and told where a controller is missing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.limits import CgroupLimits, Limit
from spurproc.errors import AlreadyGone, Unsupported
from tests import cgroup_folder
from tests.payload import Payload
from tests.relatives import NOBODY, in_fork
from tests.trees import inside

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]
Start = Callable[..., Payload]

MEMORY = pytest.mark.needs_controller("memory")
PIDS = pytest.mark.needs_controller("pids")
CPU = pytest.mark.needs_controller("cpu")
LIMIT_BYTES = 16 << 20
EACH = {"memory": CgroupLimits(memory_max_bytes=LIMIT_BYTES), "pids": CgroupLimits(pids_max=3), "cpu": CgroupLimits(cpus=0.1)}
FILES = {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.max"}
VALUES = {"memory": str(LIMIT_BYTES), "pids": "3", "cpu": "10000 100000"}
EACH_CONTROLLER = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.needs_controller(name)) for name in EACH])


@pytest.fixture
def above(cgroup_root: Path) -> Path:
    """A cgroup to which no controller is handed down, until `give`."""
    return inside(cgroup_root, "above")


@pytest.fixture
def job(above: Path) -> Iterator[Cgroup]:
    """A cgroup below it."""
    with Cgroup.create(above / "job") as cgroup:
        yield cgroup


def give(above: Path, *names: str) -> None:
    """Hand these controllers down to `above`, which itself hands down none."""
    for name in names:
        cgroup_folder.enable(name, above.parent)


def numbers(file: Path) -> dict[str, int]:
    """A flat keyed file: memory.events, pids.events, cpu.stat."""
    return {key: int(value) for key, value in (line.split() for line in file.read_text().splitlines())}


@MEMORY
def test_memory_limit_is_enforced(job: Cgroup, above: Path, payload: Start) -> None:
    """The value stands there; who needs less lives, who takes more is killed and counted."""
    give(above, "memory")
    assert job.set_limits(EACH["memory"]) == ()
    assert (above / "job" / "memory.max").read_text() == f"{LIMIT_BYTES}\n"
    assert payload("eat", "4", cgroup=above / "job").wait_ready() == b"e"
    assert payload("eat", "64", cgroup=above / "job").reap() == -9
    assert (job.oom_kills() or 0) >= 1


@PIDS
def test_process_limit_is_enforced(job: Cgroup, above: Path, payload: Start) -> None:
    """Two children fit beside their parent; the third fork fails with EAGAIN, and the kernel counts that."""
    give(above, "pids")
    assert job.set_limits(EACH["pids"]) == ()
    assert (above / "job" / "pids.max").read_text() == "3\n"
    assert payload("fork_until", "9", cgroup=above / "job").wait_ready(3) == b"..A"
    assert numbers(above / "job" / "pids.events")["max"] == 1


@CPU
def test_cpu_limit_is_enforced(job: Cgroup, above: Path, payload: Start) -> None:
    """60 ms of CPU time at 10 ms in each period of 100: the job is made to wait, several times."""
    give(above, "cpu")
    assert job.set_limits(EACH["cpu"]) == ()
    assert (above / "job" / "cpu.max").read_text() == "10000 100000\n"
    assert payload("burn", "60", cgroup=above / "job").reap(30) == 0
    stat = numbers(above / "job" / "cpu.stat")
    assert stat["nr_throttled"] >= 3
    assert stat["throttled_usec"] >= 100_000


@EACH_CONTROLLER
def test_controller_that_the_parent_has_is_handed_down(job: Cgroup, above: Path, name: str) -> None:
    """The parent's own subtree_control is written by this; nothing above it is."""
    give(above, name)
    assert not (above / "job" / FILES[name]).exists()
    assert job.set_limits(EACH[name], required=False) == ()
    assert (above / "cgroup.subtree_control").read_text().split() == [name]
    assert (above / "job" / FILES[name]).read_text().strip() == VALUES[name]


@pytest.mark.parametrize("name", EACH)
def test_missing_controller_is_named(job: Cgroup, name: str) -> None:
    """An error where the limit is required; told as not enforced where it is not. True on every layout."""
    with pytest.raises(Unsupported, match=f"no {name} controller there: the cgroup above has none to hand down") as caught:
        job.set_limits(EACH[name])
    assert (FILES[name] in str(caught.value), job.path in str(caught.value)) == (True, True)
    assert job.set_limits(EACH[name], required=False) == (FILES[name],)


@PIDS
@MEMORY
def test_one_of_two_is_missing(job: Cgroup, above: Path) -> None:
    """Required: neither is set. Not required: the other one is, and only the missing one is told."""
    give(above, "pids")
    both = CgroupLimits(memory_max_bytes=LIMIT_BYTES, pids_max=3)
    with pytest.raises(Unsupported, match="no memory controller"):
        job.set_limits(both)
    assert (above / "cgroup.subtree_control").read_text().split() == []
    assert not (above / "job" / "pids.max").exists()
    assert job.set_limits(both, required=False) == ("memory.max",)
    assert (above / "job" / "pids.max").read_text() == "3\n"


class _Pages(CgroupLimits):
    """Huge pages, where a hybrid layout leaves cgroup v2 no other controller, and a controller that nobody has."""

    def __iter__(self) -> Iterator[Limit]:
        yield Limit(controller="hugetlb", file="hugetlb.2MB.max", value="0")
        yield Limit(controller="none", file="none.max", value="0")


@pytest.mark.needs_controller("hugetlb")
def test_nothing_is_changed_where_a_required_controller_is_missing(job: Cgroup, above: Path) -> None:
    """Nor is the one before it handed down."""
    give(above, "hugetlb")
    with pytest.raises(Unsupported, match="no none controller there: the cgroup above has none"):
        job.set_limits(_Pages())
    assert (above / "cgroup.subtree_control").read_text().split() == []
    assert job.set_limits(_Pages(), required=False) == ("none.max",)
    assert (above / "cgroup.subtree_control").read_text().split() == ["hugetlb"]


@EACH_CONTROLLER
def test_parent_with_processes_hands_nothing_down(job: Cgroup, above: Path, payload: Start, name: str) -> None:
    """Else it would become threaded, and nobody could be born in the job's cgroup any more."""
    give(above, name)
    payload("hold", cgroup=above).wait_ready()
    with pytest.raises(Unsupported, match=f"no {name} controller there: .* while processes live in it"):
        job.set_limits(EACH[name])
    assert (above / "cgroup.type").read_text() == (above / "job" / "cgroup.type").read_text() == "domain\n"
    payload("hold", cgroup=above / "job").wait_ready()


@PIDS
def test_delegated_subtree(above: Path) -> None:
    """A user sets limits where cgroup.subtree_control was given as well; where it was not, that is told."""
    give(above, "pids")

    def ask(name: str) -> list[str]:
        with Cgroup.create(above / name) as cgroup:
            return list(cgroup.set_limits(EACH["pids"], required=False))

    for path in (above, above / "cgroup.procs"):
        os.chown(path, NOBODY, NOBODY)
    assert in_fork(lambda: ask("first"), uid=NOBODY) == ["pids.max"]
    os.chown(above / "cgroup.subtree_control", NOBODY, NOBODY)
    assert in_fork(lambda: ask("second"), uid=NOBODY) == []
    assert (above / "second" / "pids.max").read_text() == "3\n"


@MEMORY
def test_limits_of_a_job_that_lives(job: Cgroup, above: Path, payload: Start) -> None:
    """A member that holds more than the new limit is killed by the kernel, and that is an OOM kill."""
    give(above, "memory")
    job.set_limits(CgroupLimits(memory_max_bytes=1 << 30))  # from here on its memory is counted in its own cgroup
    eater = payload("eat", "48", cgroup=above / "job")
    eater.wait_ready()
    assert job.set_limits(EACH["memory"]) == ()
    assert eater.reap() == -9
    assert (job.oom_kills() or 0) >= 1


@pytest.mark.own_pid_namespace(mount=True)
@pytest.mark.parametrize("name", EACH)
def test_the_top_of_a_mount_is_not_the_top_of_the_hierarchy(job: Cgroup, tmp_path: Path, name: str) -> None:
    """As a container sees its own cgroup: who could hand down is out of sight, so no limit is enforced, and that is told."""
    subprocess.run(["mount", "--bind", job.path, tmp_path], check=True)
    with Cgroup.open(tmp_path) as cgroup:
        with pytest.raises(Unsupported, match=f"no {name} controller there: the cgroup above cannot be reached"):
            cgroup.set_limits(EACH[name])
        assert cgroup.set_limits(EACH[name], required=False) == (FILES[name],)
    subprocess.run(["umount", tmp_path], check=True)


def test_a_removed_cgroup_is_gone_and_no_top(cgroup_root: Path) -> None:
    """Neither has a cgroup.type."""
    with Cgroup.create(cgroup_root / "x") as cgroup:
        os.rmdir(cgroup.path)
        with pytest.raises(AlreadyGone):
            cgroup.set_limits(CgroupLimits(pids_max=1))


def test_the_top_of_the_hierarchy_has_no_limits() -> None:
    """Nobody above it could hand anything down; and its controllers, which it has, have no such files there."""
    top = cgroup_folder.mount()
    assert top is not None
    with Cgroup.open(top) as cgroup, pytest.raises(Unsupported, match="no memory controller there: this is the top"):
        cgroup.set_limits(EACH["memory"])
