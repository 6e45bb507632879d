"""Cgroups for steps: none is left behind for good, and none is taken from whoever uses it."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc import SystemCallError
from spurproc.core.cgroup import step as step_module
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.cgroup.step import keep_step, make_step
from tests.payload import Payload

Start = Callable[..., Payload]

pytestmark = pytest.mark.needs_cgroup_v2

_MAKER = """
import os, signal, sys
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.cgroup.step import keep_step, make_step
step = make_step(CgroupRoot(path=sys.argv[1]), "left")
if sys.argv[2] == "kept":
    keep_step(step)
signal.raise_signal(signal.SIGKILL)
"""


@pytest.fixture
def root(cgroup_root: Path) -> CgroupRoot:
    root = CgroupRoot(path=str(cgroup_root))
    root.prepare()
    return root


def leave(root: CgroupRoot, how: str) -> Path:
    """A step whose maker was killed."""
    subprocess.run([sys.executable, "-c", _MAKER, root.path, how], check=False)
    left = Path(root.steps, "left")
    assert left.is_dir()
    return left


def make_another(root: CgroupRoot) -> None:
    with make_step(root, "another") as step:
        step.remove()


def test_what_a_killed_maker_left_is_removed_with_the_next(root: CgroupRoot) -> None:
    """No record names it, and nobody holds it."""
    left = leave(root, "made")
    make_another(root)
    assert not left.exists()


def test_a_kept_one_stays(root: CgroupRoot) -> None:
    """A record on disk names it: it is that record's to remove."""
    left = leave(root, "kept")
    make_another(root)
    assert left.is_dir()


def test_one_that_is_held_stays(root: CgroupRoot) -> None:
    """Between the making and the join it is empty, and in use."""
    with make_step(root, "held") as step:
        make_another(root)
        assert os.path.isdir(step.path)
        step.remove()


def test_one_with_a_process_stays_until_that_has_ended(root: CgroupRoot, payload: Start) -> None:
    """And so do the cgroups that the job made below, empty ones too."""
    left = leave(root, "made")
    (left / "below").mkdir()
    job = payload("hold", cgroup=left)
    job.wait_ready()
    make_another(root)
    assert (left / "below").is_dir()
    job.kill()
    job.reap()
    with Cgroup.open(left) as cgroup:
        cgroup.wait_empty(5)
    make_another(root)
    assert not left.exists()


def test_a_sweep_between_the_making_and_the_lock(root: CgroupRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks like one that was left: it is made anew."""
    flock = fcntl.flock
    took: list[int] = []

    def swept_first(fd: int, operation: int) -> None:
        if not took:
            took.append(os.fstat(fd).st_ino)
            os.rmdir(f"{root.steps}/mine")
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", swept_first)
    with make_step(root, "mine") as step:
        assert [os.stat(step.path).st_ino] != took
        assert os.stat(step.path).st_mode & stat.S_ISVTX
        step.remove()


def test_a_sweep_that_has_the_lock_and_takes_its_time(root: CgroupRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many are launched at once: what a sweep has taken, and not removed yet, is waited for, and no failure of the launch."""
    flock = fcntl.flock
    path = f"{root.steps}/mine"
    sweeps: list[int] = []

    def swept_first(fd: int, operation: int) -> None:
        if not sweeps:
            sweeps.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            flock(sweeps[0], fcntl.LOCK_EX)
        flock(fd, operation)

    def swept(_: int) -> None:
        if len(sweeps) == 1:
            sweeps.append(-1)  # it is slower than the first try after it
        elif os.path.isdir(path):
            os.rmdir(path)

    monkeypatch.setattr(fcntl, "flock", swept_first)
    monkeypatch.setattr(step_module, "_pause", swept)
    with make_step(root, "mine") as step:
        assert os.stat(step.path).st_mode & stat.S_ISVTX
        step.remove()
    os.close(sweeps[0])


def test_a_name_that_is_taken_is_an_error(root: CgroupRoot) -> None:
    """Nobody waits for somebody else's to go."""
    with make_step(root, "mine") as step:
        with pytest.raises(SystemCallError, match="File exists"):
            make_step(root, "mine")
        step.remove()


def test_one_that_is_kept_while_it_is_swept(root: CgroupRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its maker has it named in a record and lets go, right between the sweep's look and its lock."""
    left = leave(root, "made")
    flock = fcntl.flock

    def kept_first(fd: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            left.chmod(0o755)
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", kept_first)
    make_another(root)
    assert left.is_dir()


def test_a_sweep_that_is_under_way(root: CgroupRoot) -> None:
    """One that another holds for itself is being removed."""
    left = leave(root, "made")
    fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    make_another(root)
    assert left.is_dir()
    os.close(fd)
    keep = make_step(root, "kept")
    assert not left.exists()
    keep_step(keep)
    assert stat.S_IMODE(os.stat(keep.path).st_mode) == 0o755
    keep.remove()
    keep.close()
