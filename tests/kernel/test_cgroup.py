"""One cgroup on the real file system: what it says of itself, and what is no cgroup."""

from __future__ import annotations

import asyncio
import math
import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from spurproc.core._native import lib
from spurproc.core.cgroup import events as cgroup_events
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.observation import Liveness
from spurproc.errors import AlreadyGone, InvalidArgument, NotCgroup2, SystemCallError, WaitTimeout
from tests.payload import Payload
from tests.relatives import NOBODY, in_fork
from tests.trees import inside, listed, move

pytestmark = pytest.mark.needs_cgroup_v2
Start = Callable[..., Payload]
_CLONE_NEWCGROUP = 0x02000000


def test_create_makes_one_and_never_takes_one_over(cgroup_root: Path) -> None:
    with Cgroup.create(cgroup_root / "new") as made:
        assert made.inode == (cgroup_root / "new").stat().st_ino
        assert made.kernel_path() in {line[3:] for line in (f"0::{made.kernel_path()}",)}
        with pytest.raises(SystemCallError, match="File exists"):
            Cgroup.create(cgroup_root / "new")


def test_plain_folder_is_refused(tmp_path: Path) -> None:
    """A folder with all the right files in it, on another file system, and nothing is made in it."""
    for name in ("cgroup.procs", "cgroup.events", "cgroup.controllers"):
        (tmp_path / name).write_text("populated 0\n")
    with pytest.raises(NotCgroup2):
        Cgroup.open(tmp_path)
    with pytest.raises(NotCgroup2):
        Cgroup.create(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_hybrid_v1_folder_is_refused(tmp_path: Path) -> None:
    v1 = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup " in line]
    for mount in v1:
        with pytest.raises(NotCgroup2):
            Cgroup.open(mount)


def test_symlink_is_not_followed(cgroup: Cgroup, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cgroup.path)
    with pytest.raises(SystemCallError):
        Cgroup.open(tmp_path / "link")


@pytest.mark.parametrize("path", ["relative", "/", "//", "/.", "/a\0b", "", "/a/../b", "/..", None, 3])
def test_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        Cgroup.open(path)


def test_dots_behind_a_symlink_lead_nowhere(cgroup_root: Path, tmp_path: Path) -> None:
    """LINK/../other is beside what LINK leads to, and its spelling says that it is beside LINK: neither is opened."""
    for name in ("a", "a/below", "a/other", "other"):
        inside(cgroup_root, name)
    (tmp_path / "link").symlink_to(cgroup_root / "a" / "below")
    with pytest.raises(InvalidArgument, match=r"without '\.\.'"):
        Cgroup.open(tmp_path / "link" / ".." / "other")
    with Cgroup.open(f"{cgroup_root}//a/./other/") as cgroup:
        assert cgroup.path == str(cgroup_root / "a" / "other")


def test_closed_is_said_and_nothing_else_answers(cgroup_root: Path) -> None:
    """A listing of descriptor -1 would be one of the current folder."""
    cgroup = Cgroup.create(cgroup_root / "x")
    cgroup.close()
    cgroup.close()
    asks = (cgroup.fileno, cgroup.pids, cgroup.children, cgroup.holds_caller, cgroup.oom_kills, cgroup.liveness, cgroup.record)
    acts = (cgroup.kill, cgroup.freeze, cgroup.thaw, cgroup.remove, cgroup.wait_empty, cgroup.kernel_path, cgroup.events)
    for use in asks + acts:
        with pytest.raises(InvalidArgument, match="it is closed"):
            use()


def test_events_closed_in_the_middle_of_a_look_are_seen(cgroup_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread closes them while we read, and the number is another cgroup's by then."""
    with Cgroup.create(cgroup_root / "x") as cgroup, Cgroup.create(cgroup_root / "y") as other:
        events = CgroupEvents(open_events(cgroup.fileno()))
        fd = events.fileno()

        def read(_fd: int, into: object) -> int:
            events.close()
            os.dup2(other.events_fd, fd)
            error = lib.spur_cgroup_events_read(fd, into)
            os.close(fd)
            return error

        monkeypatch.setattr(cgroup_events, "lib", SimpleNamespace(spur_cgroup_events_read=read))
        with pytest.raises(SystemCallError, match="Bad file descriptor"):
            events.read()


@pytest.mark.parametrize("timeout_s", [math.nan, "1", True])
def test_what_is_no_span_of_time_is_refused(cgroup: Cgroup, timeout_s: float) -> None:
    for use in (cgroup.wait_empty, cgroup.remove, cgroup.freeze):
        with pytest.raises(InvalidArgument, match="timeout_s"):
            use(timeout_s)
    assert "frozen 0" in Path(cgroup.path, "cgroup.events").read_text()


def test_open_with_inode_takes_that_very_one(cgroup_root: Path) -> None:
    first = Cgroup.create(cgroup_root / "x")
    first.remove()
    with Cgroup.create(cgroup_root / "x") as second, first:
        assert second.inode != first.inode
        with pytest.raises(AlreadyGone, match="another one has taken its place"):
            Cgroup.open(cgroup_root / "x", inode=first.inode)
        Cgroup.open(cgroup_root / "x", inode=second.inode).close()


def test_liveness_follows_members(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    assert cgroup.liveness() is Liveness.GONE
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    assert cgroup.observe().liveness is Liveness.ALIVE
    assert cgroup.observe().evidence == "cgroup.events"
    leader.release()
    leader.wait_exit()
    cgroup.wait_empty(timeout_s=5)
    assert cgroup.liveness() is Liveness.GONE, "a zombie does not populate"


def test_liveness_counts_sub_cgroups(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    payload("hold", cgroup=inside(cgroup_root, "sub")).wait_ready()
    assert listed(cgroup_root / "sub")
    assert not (cgroup_root / "cgroup.procs").read_text()
    assert cgroup.liveness() is Liveness.ALIVE
    assert cgroup.pids() == listed(cgroup_root)
    assert cgroup.children() == ["sub"]


def test_zombie_leader_with_a_live_thread_is_alive(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    payload("main_thread_exits", cgroup=cgroup_root).wait_ready()
    assert cgroup.liveness() is Liveness.ALIVE


def test_removed_is_gone_and_its_successor_is_another(cgroup_root: Path, payload: Start) -> None:
    with Cgroup.create(cgroup_root / "x") as old:
        old.remove()
        assert old.observe().evidence == "removed"
        with Cgroup.create(cgroup_root / "x") as new:
            payload("hold", cgroup=cgroup_root / "x").wait_ready()
            assert old.liveness() is Liveness.GONE
            assert old.pids() == frozenset()
            assert old.signal(9).signalled == 0
            old.remove()
            assert new.liveness() is Liveness.ALIVE, "the namesake was taken for the removed one"


def test_a_change_that_another_waiter_was_told_of_is_found(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """Two threads wait with the same descriptor, and one reads what the kernel would have woken the other one for."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    events, looks = cgroup.events(), list[bool]()
    poll = select.poll()
    poll.register(events.fileno(), select.POLLPRI)

    def looked_at() -> bool:
        looks.append(events.is_empty())
        if len(looks) == 1:
            leader.release()
            while poll.poll(10_000) and not events.is_empty():  # as the other one does
                pass
        return looks[-1]

    begun = time.monotonic()
    assert events.wait(looked_at, begun + 20)
    assert time.monotonic() - begun < 10


def test_whoever_waits_for_a_removed_one_to_be_empty_is_done(cgroup_root: Path) -> None:
    """Its events, still open, say ENODEV and nothing else for ever."""
    with Cgroup.create(cgroup_root / "x") as cgroup:
        os.rmdir(cgroup.path)
        cgroup.wait_empty(timeout_s=0)
        asyncio.run(cgroup.wait_empty_async(timeout_s=0))


def test_top_of_the_hierarchy_is_unknown() -> None:
    top = Path(os.environ["SPURPROC_CGROUP_ROOT"]).parent.parent
    with Cgroup.open(top) as cgroup:
        assert cgroup.liveness() in (Liveness.UNKNOWN, Liveness.ALIVE)
        if not (top / "cgroup.events").exists():
            assert cgroup.observe().evidence == "no cgroup.events"


@pytest.mark.needs_root
def test_unreadable_is_unknown(cgroup_root: Path) -> None:
    (cgroup_root / "cgroup.events").chmod(0)

    def ask() -> list[str]:
        with Cgroup.open(cgroup_root) as cgroup:
            return [cgroup.liveness().value, cgroup.observe().evidence]

    assert in_fork(ask, uid=NOBODY) == ["unknown", "unreadable"]


def test_pids_are_read_to_the_end(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """One read of cgroup.procs gives about a page: 1,500 numbers take several."""
    payload("many", "1500", cgroup=cgroup_root).wait_ready()
    assert len(cgroup.pids()) == 1501
    assert cgroup.kill().signalled == 1501
    cgroup.wait_empty(timeout_s=10)


def test_wait_empty_gives_up_at_its_deadline(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    payload("hold", cgroup=cgroup_root).wait_ready()
    with pytest.raises(WaitTimeout):
        cgroup.wait_empty(timeout_s=0.01)
    with pytest.raises(WaitTimeout):
        asyncio.run(cgroup.wait_empty_async(timeout_s=0.01))


def test_wait_empty_async_sees_the_last_one_go(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()

    async def wait() -> None:
        task = asyncio.ensure_future(cgroup.wait_empty_async(timeout_s=5))
        await asyncio.sleep(0)
        leader.release()
        await task

    asyncio.run(wait())
    assert cgroup.liveness() is Liveness.GONE


def test_root_is_found_and_made(monkeypatch: pytest.MonkeyPatch, cgroup_root: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("SPURPROC_CGROUP_ROOT", str(cgroup_root / "ours"))
    root = find_cgroup_root()
    assert root is not None
    assert sorted(path.name for path in (cgroup_root / "ours").iterdir() if path.is_dir()) == ["hooks", "steps", "supervisors"]
    monkeypatch.setenv("SPURPROC_CGROUP_ROOT", str(tmp_path / "ours"))
    with pytest.raises(NotCgroup2):
        find_cgroup_root()
    assert not (tmp_path / "ours").exists()


@pytest.mark.needs_root
def test_root_in_a_delegated_cgroup(monkeypatch: pytest.MonkeyPatch, cgroup_root: Path) -> None:
    """A user finds the topmost cgroup above its own that it may write, and no root elsewhere."""
    monkeypatch.delenv("SPURPROC_CGROUP_ROOT")
    leaf = inside(cgroup_root, "leaf")
    for path in (cgroup_root, cgroup_root / "cgroup.procs", leaf, leaf / "cgroup.procs"):
        os.chown(path, NOBODY, NOBODY)

    def ask() -> str | None:
        root = find_cgroup_root()
        return None if root is None else root.path

    def ask_inside() -> str | None:
        move(os.getpid(), leaf)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return ask()

    assert in_fork(ask_inside) == f"{cgroup_root}/spurproc"
    assert in_fork(ask, uid=NOBODY) is None
