"""What the controllers of cgroup v2 do to a tree, and how that is told: memory.max and pids.max reached."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.spawn.spawn import SpawnPlan, spawn
from spurproc.errors import SpawnError
from tests import cgroup_folder
from tests.payload import Payload
from tests.relatives import NOBODY, in_fork
from tests.spawning import DETACH, ROUTES, output_of
from tests.trees import inside, listed, move

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]
Start = Callable[..., Payload]

MEMORY = pytest.mark.needs_controller("memory")
PIDS = pytest.mark.needs_controller("pids")
LIMIT_BYTES = 16 << 20


@MEMORY
def test_oom_kill_is_told_apart_from_a_plain_sigkill(cgroup_root: Path, payload: Start) -> None:
    """Both end by signal 9; only one is counted, in the cgroup and in the one above."""
    cgroup_folder.enable("memory", cgroup_root)
    with Cgroup.create(cgroup_root / "job") as cgroup, Cgroup.open(cgroup_root) as above:
        (cgroup_root / "job" / "memory.max").write_text(str(LIMIT_BYTES))
        plain = payload("hold", cgroup=cgroup_root / "job")
        plain.wait_ready()
        plain.kill()
        assert (plain.reap(), cgroup.oom_kills()) == (-9, 0)
        eater = payload("eat", "64", cgroup=cgroup_root / "job")
        assert eater.reap() == -9
        assert [(kills or 0) >= 1 for kills in (cgroup.oom_kills(), above.oom_kills())] == [True, True]


@MEMORY
def test_oom_kills_are_not_known_where_memory_is_not_counted(cgroup_root: Path) -> None:
    """None, and not 0."""
    with Cgroup.create(cgroup_root / "job") as cgroup:
        assert cgroup.oom_kills() is None


@MEMORY
def test_root_counts_memory_of_each_run(monkeypatch: pytest.MonkeyPatch, cgroup_root: Path) -> None:
    """Once its parent has the controller to give: also where the root was made before."""
    monkeypatch.setenv("SPURPROC_CGROUP_ROOT", str(cgroup_root / "ours"))
    for expected in (None, 0):
        root = find_cgroup_root()
        assert root is not None
        with Cgroup.create(f"{root.steps}/run") as cgroup:
            assert cgroup.oom_kills() == expected
            cgroup.remove()
        cgroup_folder.enable("memory", cgroup_root)


@MEMORY
def test_root_that_may_not_count_memory_is_a_root(monkeypatch: pytest.MonkeyPatch, cgroup_root: Path) -> None:
    """A user to whom the folder was given, but not its cgroup.subtree_control."""
    cgroup_folder.enable("memory", cgroup_root)
    ours = inside(cgroup_root, "ours")
    for name in ("supervisors", "steps", "hooks"):
        os.chown(inside(ours, name), NOBODY, NOBODY)
    monkeypatch.setenv("SPURPROC_CGROUP_ROOT", str(ours))

    def ask() -> str | None:
        root = find_cgroup_root()
        return None if root is None else root.path

    assert in_fork(ask, uid=NOBODY) == str(ours)
    assert (ours / "cgroup.subtree_control").read_text().split() == []


@PIDS
@DETACH
@pytest.mark.parametrize("fields", ROUTES, ids=["plain", "program"])
def test_full_cgroup(cgroup_root: Path, fields: dict[str, object], *, detach: bool) -> None:
    """EAGAIN at CLONE from pids.max of the job's own cgroup, nobody in it and no child left; with room for one it starts."""
    cgroup_folder.enable("pids", cgroup_root)
    with Cgroup.create(cgroup_root / "job") as cgroup:
        limit = cgroup_root / "job" / "pids.max"
        limit.write_text("0")
        with pytest.raises(SpawnError) as caught:
            spawn(SpawnPlan(argv=["/bin/true"], cgroup=cgroup, detach=detach, **fields))  # type: ignore[arg-type]
        assert (caught.value.errno, caught.value.stage) == (errno.EAGAIN, "CLONE")
        assert listed(cgroup_root) == set()
        limit.write_text("1")
        output, _ = output_of(["/bin/echo", "started"], cgroup=cgroup, detach=detach, **fields)
        assert output == b"started\n"
        cgroup.wait_empty(timeout_s=5)


@PIDS
@DETACH
def test_full_cgroup_of_the_launcher(cgroup_root: Path, *, detach: bool) -> None:
    """SP-14: with room for all but the last of the processes that a start takes; EAGAIN at CLONE, no child left."""
    cgroup_folder.enable("pids", cgroup_root)
    own = inside(cgroup_root, "launcher")

    def ask() -> list[object]:
        move(os.getpid(), own)
        (own / "pids.max").write_text("2" if detach else "1")
        with pytest.raises(SpawnError) as caught:
            spawn(SpawnPlan(argv=["/bin/true"], detach=detach))
        with pytest.raises(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | 0x40000000)  # __WALL
        return [caught.value.errno, caught.value.stage, len(listed(own))]

    assert in_fork(ask) == [errno.EAGAIN, "CLONE", 1]
