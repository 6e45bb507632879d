"""Whole runs that meet memory.max and pids.max: how their end is told, and what a refused start leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.cgroup.root import CgroupRoot, find_cgroup_root
from spurproc.core.command.run import run
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.errors import SpawnError
from tests import cgroup_folder
from tests.recording import read_from_new_process

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]
Program = Callable[[str], Path]

MEMORY = pytest.mark.needs_controller("memory")
PIDS = pytest.mark.needs_controller("pids")
LIMIT_BYTES = 16 << 20
KILL_ITSELF = ["sh", "-c", "kill -9 $$"]


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, cgroup_root: Path) -> CgroupRoot:
    """A root of this test's own, so that it may be limited as a whole; the controllers are there."""
    cgroup_folder.enable("memory", cgroup_root)
    monkeypatch.setenv("SPURPROC_CGROUP_ROOT", str(cgroup_root / "ours"))
    found = find_cgroup_root()
    assert found is not None
    cgroup_folder.enable("pids", cgroup_root / "ours")
    return found


def killed(info: ExitInfo) -> tuple[bool, bool]:
    """Whether it ended by SIGKILL, and whether for want of memory."""
    assert info.oom_kills is not None
    return (info.kind, info.signal) == (ExitKind.SIGNALED, 9), info.oom_kills >= 1


@MEMORY
def test_run_tells_an_oom_kill_from_a_plain_sigkill(root: CgroupRoot, payload_program: Program) -> None:
    Path(root.steps, "memory.max").write_text(str(LIMIT_BYTES))
    assert killed(run([payload_program("eat"), "64"])) == (True, True)
    assert killed(run(KILL_ITSELF)) == (True, False)


@MEMORY
@pytest.mark.parametrize("oom", [True, False])
def test_recorded_run_tells_an_oom_kill_from_a_plain_sigkill(
    root: CgroupRoot, payload_program: Program, tmp_path: Path, *, oom: bool
) -> None:
    """To its launcher, and to a process that has never seen it."""
    Path(root.steps, "memory.max").write_text(str(LIMIT_BYTES))
    argv: list[str | Path] = [payload_program("eat"), "64"] if oom else [*KILL_ITSELF]
    with launch_recorded(SpawnPlan(argv=argv), tmp_path / "run") as launched:
        assert killed(launched.wait(20)) == (True, oom)
    read = read_from_new_process(tmp_path / "run", remove=True)
    assert (read["kind"], read["signal"], read["oom_kills"] >= 1) == ("signaled", 9, oom)


@MEMORY
def test_an_oom_kill_below_a_leader_that_lives_on(root: CgroupRoot, payload_program: Program, tmp_path: Path) -> None:
    """The leader's end is its own; that somebody below it was killed for want of memory is told, and a plain SIGKILL is not."""
    Path(root.steps, "memory.max").write_text(str(LIMIT_BYTES))
    below: list[str | Path] = ["sh", "-c", '"$@"; exit 3', "sh"]
    for victim, oom in (([payload_program("eat"), "64"], True), (KILL_ITSELF, False)):
        end = run([*below, *victim])
        assert (end.kind, end.code, (end.oom_kills or 0) >= 1) == (ExitKind.EXITED, 3, oom)
        with launch_recorded(SpawnPlan(argv=[*below, *victim]), tmp_path / "run") as launched:
            info = launched.wait(20)
            assert (info.kind, info.code, (info.oom_kills or 0) >= 1) == (ExitKind.EXITED, 3, oom)
            launched.remove()


@MEMORY
def test_an_oom_kill_of_the_whole_group(root: CgroupRoot, payload_program: Program, tmp_path: Path) -> None:
    """memory.oom.group, where somebody has set it above us: the leader dies with its child, the recorder tells it. 4.19."""
    Path(root.steps, "memory.max").write_text(str(LIMIT_BYTES))
    Path(root.steps, "memory.oom.group").write_text("1")
    plan = SpawnPlan(argv=["sh", "-c", '"$0" 64; exit 3', payload_program("eat")])
    with launch_recorded(plan, tmp_path / "run") as launched:
        assert killed(launched.wait(20)) == (True, True)
        launched.remove()


@PIDS
def test_a_fork_beyond_the_limit_is_the_jobs_own_affair(root: CgroupRoot) -> None:
    """It sees EAGAIN; how it ends then is how it ends, and nothing of it is left."""
    Path(root.steps, "pids.max").write_text("1")
    end = run(["sh", "-c", "true & wait; exit 0"], capture=True)
    assert (end.kind, end.code) == (ExitKind.EXITED, 2)
    assert b"fork" in (end.stderr or b"")


@PIDS
def test_run_refused_by_a_full_cgroup_leaves_nothing(root: CgroupRoot, tmp_path: Path) -> None:
    """SpawnError EAGAIN from both, and no cgroup, no folder, no process (the leak guard looks)."""
    Path(root.steps).joinpath("pids.max").write_text("0")
    for start in (lambda: run(["true"]), lambda: launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run")):
        with pytest.raises(SpawnError) as caught:
            start()
        assert (caught.value.errno, caught.value.stage) == (errno.EAGAIN, "CLONE")
        assert [name for name in os.listdir(root.steps) if Path(root.steps, name).is_dir()] == []
    assert os.listdir(tmp_path) == []
