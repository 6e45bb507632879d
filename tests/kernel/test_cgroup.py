"""One cgroup on the real file system: what it says of itself, and acts on all of it."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from spurproc.core._native import lib
from spurproc.core.cgroup import events as cgroup_events
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.cgroup.signal_report import Route
from spurproc.core.observation import Liveness
from spurproc.errors import AlreadyGone, Busy, InvalidArgument, NotCgroup2, SignalRefused, SystemCallError, WaitTimeout
from tests.payload import Payload
from tests.relatives import NOBODY, in_fork
from tests.rungs import without
from tests.trees import inside, listed, move

pytestmark = pytest.mark.needs_cgroup_v2
Start = Callable[..., Payload]
_CLONE_NEWCGROUP = 0x02000000


@pytest.fixture
def cgroup(cgroup_root: Path) -> Iterator[Cgroup]:
    """The test's own cgroup, held."""
    with Cgroup.open(cgroup_root) as held:
        yield held


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


def test_freeze_stops_and_thaw_undoes_it_below_too(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    below = inside(cgroup_root, "sub")
    payload("hold", cgroup=below).wait_ready()
    cgroup.freeze()
    (below / "cgroup.freeze").write_text("1")
    assert "frozen 1" in (below / "cgroup.events").read_text()
    cgroup.thaw()
    assert cgroup.events().wait(lambda: "frozen 0" in (below / "cgroup.events").read_text(), None)


def test_kill_reaches_an_escaped_session(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """A grandchild that called setsid and lost its parent is a member all the same."""
    payload("double_fork_setsid", cgroup=cgroup_root).wait_ready(2)
    report = cgroup.kill()
    cgroup.wait_empty(timeout_s=5)
    assert (report.signalled, report.complete, report.route) == (2, True, Route.CGROUP)


def test_kill_reaches_whose_main_thread_has_exited(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """cgroup.kill misses it; the sweep by pidfd does not."""
    leader = payload("main_thread_exits", cgroup=cgroup_root)
    leader.wait_ready()
    (cgroup_root / "cgroup.kill").write_text("1")
    assert cgroup.liveness() is Liveness.ALIVE
    cgroup.kill()
    leader.wait_exit()
    assert leader.reap() == -9


def test_cgroup_that_holds_the_caller_is_refused(cgroup_root: Path) -> None:
    """For signal, kill and freeze, and also from a sub-cgroup."""
    below = inside(cgroup_root, "sub")

    def ask() -> list[str]:
        move(os.getpid(), below)
        refused = []
        with Cgroup.open(cgroup_root) as cgroup:
            for act in (lambda: cgroup.signal(15), cgroup.kill, cgroup.freeze):
                try:
                    act()
                except SignalRefused as error:
                    refused.append(str(error).split()[1])
            return [*refused, str(cgroup.holds_caller())]

    assert in_fork(ask) == ["signal", "signal", "freeze", "True"]
    assert "frozen 0" in (cgroup_root / "cgroup.events").read_text()


def test_thread_of_the_caller_inside_is_the_caller(cgroup_root: Path) -> None:
    """The main thread stands outside of the threaded cgroup, another one in it: frozen, it would never come back."""
    domain, below = inside(cgroup_root, "domain"), inside(cgroup_root / "domain", "threaded")
    (below / "cgroup.type").write_text("threaded")

    def ask() -> list[str]:
        move(os.getpid(), domain)
        entered, leave = threading.Event(), threading.Event()

        def stand_there() -> None:
            (below / "cgroup.threads").write_text(str(threading.get_native_id()))
            entered.set()
            leave.wait()

        thread = threading.Thread(target=stand_there)
        thread.start()
        entered.wait()
        with Cgroup.open(below) as cgroup:
            found = [str(cgroup.holds_caller())]
            for act in (cgroup.freeze, cgroup.kill):
                try:
                    act()
                except SignalRefused:
                    found.append("refused")
            leave.set()
            thread.join()
            return [*found, str(cgroup.holds_caller())]

    assert in_fork(ask) == ["True", "refused", "refused", "False"]


def test_without_a_descriptor_left_that_is_said(cgroup: Cgroup) -> None:
    """And not that the caller lives in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        for act in (cgroup.kill, cgroup.freeze, cgroup.holds_caller):
            with pytest.raises(SystemCallError, match="Too many open files"):
                act()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.needs_root
def test_caller_is_found_from_inside_its_cgroup_namespace(cgroup_root: Path) -> None:
    """What lies above the namespace's root has many spellings ("/../..") and none that /proc/self/cgroup begins with."""
    below = inside(inside(cgroup_root, "a"), "b")
    inside(cgroup_root, "apart")

    def ask() -> list[bool]:
        move(os.getpid(), below)
        assert ctypes.CDLL(None).unshare(_CLONE_NEWCGROUP) == 0
        with without("pidfd_info"):
            return [Cgroup.open(cgroup_root / name).holds_caller() for name in ("", "a", "a/b", "apart")]

    assert in_fork(ask) == [True, True, True, False]


@pytest.mark.needs_root
def test_shut_sub_cgroup_keeps_nobody_else_from_the_signal(cgroup_root: Path, payload: Start) -> None:
    """A job that shuts one of its cgroups: the rest is reached, and the report does not claim all."""
    leaders = {name: payload("hold", cgroup=inside(cgroup_root, name)) for name in ("a", "shut", "z")}
    for leader in leaders.values():
        leader.wait_ready()
    (cgroup_root / "shut").chmod(0)

    def ask() -> list[object]:
        with Cgroup.open(cgroup_root) as cgroup:
            report = cgroup.signal(0)
            return [sorted(refusal.pid for refusal in report.refused), report.complete]

    assert in_fork(ask, uid=NOBODY) == [sorted(leaders[name].pid for name in ("a", "z")), False]


@pytest.mark.needs_root
def test_member_that_moves_to_and_fro_is_not_overlooked(cgroup_root: Path, payload: Start) -> None:
    """It can be in the other cgroup whenever one is read: then nobody was seen, which is not that there is nobody."""
    doors = [inside(cgroup_root, name) / "cgroup.procs" for name in ("a", "b")]
    leader = payload("mover", str(doors[0]), str(doors[1]), cgroup=cgroup_root / "a")
    leader.wait_ready()
    with Cgroup.open(cgroup_root) as cgroup:
        reports = [cgroup.signal(0) for _ in range(400)]
    assert [report for report in reports if report.complete and not report.signalled] == []
    assert max(report.signalled for report in reports) == 1


def test_remove_takes_what_is_below_deepest_first(cgroup_root: Path) -> None:
    with Cgroup.create(cgroup_root / "x") as cgroup:
        (cgroup_root / "x" / "a" / "b" / "c").mkdir(parents=True)
        (cgroup_root / "x" / "d").mkdir()
        cgroup.remove()
        assert not (cgroup_root / "x").exists()
        cgroup.remove()


@pytest.mark.needs_root
def test_depth_is_the_jobs_to_choose(cgroup_root: Path, payload: Start) -> None:
    """Deeper than Python recurses and than descriptors go: found, signalled and removed all the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, hard))
    try:
        with Cgroup.create(cgroup_root / "x") as cgroup:
            below = Path(cgroup.path)
            for _ in range(1100):
                below = inside(below, "d")
            leader = payload("hold", cgroup=below)
            leader.wait_ready()
            assert cgroup.pids() == {leader.pid}
            assert cgroup.signal(15).signalled == 1
            assert leader.reap() == -15
            cgroup.remove(timeout_s=10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not (cgroup_root / "x").exists()


def test_remove_right_after_a_kill(cgroup_root: Path, payload: Start) -> None:
    """The kernel says EBUSY until the members are gone, and for a moment more."""
    with Cgroup.create(cgroup_root / "x") as cgroup:
        payload("many", "50", cgroup=cgroup_root / "x").wait_ready()
        cgroup.kill()
        cgroup.remove()
    assert not (cgroup_root / "x").exists()


def test_remove_gives_up_on_a_populated_one(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    payload("hold", cgroup=cgroup_root).wait_ready()
    with pytest.raises(Busy):
        cgroup.remove(timeout_s=0.02)
    assert cgroup.liveness() is Liveness.ALIVE


_OUTSIDER = """
import json, sys
from spurproc.core.cgroup.cgroup import Cgroup
with Cgroup.open(sys.argv[1]) as cgroup:
    asked = cgroup.signal(15)
    seen = [[refusal.pid, refusal.reason.name] for refusal in asked.refused]
    killed = cgroup.kill()
    print(json.dumps([asked.signalled, seen, sorted(cgroup.pids()), killed.signalled, len(killed.refused)]))
"""


@pytest.mark.needs_root
@pytest.mark.needs_facility("cgroup_kill")
def test_member_outside_the_pid_namespace_is_reported_and_only_cgroup_kill_reaches_it(cgroup_root: Path, payload: Start) -> None:
    """It is listed as 0, and kill(0) would hit the caller's own group."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", _OUTSIDER, str(cgroup_root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == '[0, [[0, "FOREIGN"]], [], 1, 0]'
    assert leader.reap() == -9


_FOREIGN_PROC = """
import json, os, sys
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.errors import Unsupported
from spurproc.core.tree.members import ProcessTree, members
ready, door = os.pipe()
if (child := os.fork()) == 0:
    open(sys.argv[1] + "/cgroup.procs", "w").write("0")
    os.write(door, b"r")
    while True:
        os.read(ready, 0) or __import__("signal").pause()
os.read(ready, 1)
with Cgroup.open(sys.argv[1]) as cgroup:
    seen = [row.pid for row in members(ProcessTree(cgroup=cgroup))]
    try:
        report = cgroup.signal(15)
        print(json.dumps([child, seen, report.signalled, os.WTERMSIG(os.waitpid(child, 0)[1])]))
    except Unsupported:
        print("Unsupported")
        (lambda file: (file.write("1"), file.close()))(open(sys.argv[1] + "/cgroup.kill", "w"))
        os.waitpid(child, 0)
"""


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_info")
@pytest.mark.needs_facility("pidfs_inode")
@pytest.mark.parametrize("mask", ["", "pidfd_info", "pidfs_inode", "pidfd_open"])
def test_proc_of_another_pid_namespace_is_never_believed(cgroup_root: Path, mask: str) -> None:
    """There the member's number names a stranger. Without /proc only the strongest rung is left."""
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", _FOREIGN_PROC, str(cgroup_root)]
    environment = {**os.environ, "SPURPROC_MASK": mask}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, env=environment)
    assert done.stdout.strip() == ("Unsupported" if mask else "[2, [], 1, 15]"), done.stderr


def test_threaded_cgroup_is_signalled_through_its_threads(cgroup_root: Path, payload: Start) -> None:
    """cgroup.procs and cgroup.kill are EOPNOTSUPP there."""
    leader = payload("threads", cgroup=cgroup_root)
    leader.wait_ready()
    below = inside(cgroup_root, "threaded")
    (below / "cgroup.type").write_text("threaded")
    thread = next(tid for tid in os.listdir(f"/proc/{leader.pid}/task") if int(tid) != leader.pid)
    (below / "cgroup.threads").write_text(thread)
    with pytest.raises(OSError, match="not supported"):
        (below / "cgroup.procs").read_text()
    with Cgroup.open(below) as cgroup:
        assert cgroup.pids() == {leader.pid}
        assert cgroup.signal(0).signalled == 1
        assert cgroup.kill().signalled == 1
        cgroup.wait_empty(timeout_s=5)
    assert leader.reap() == -9


def test_threaded_child_does_not_hide_its_process(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """The main thread stands in the threaded child, so the ids differ: listed twice, signalled once."""
    leader = payload("threads", cgroup=cgroup_root)
    leader.wait_ready()
    below = inside(cgroup_root, "threaded")
    (below / "cgroup.type").write_text("threaded")
    (below / "cgroup.threads").write_text(str(leader.pid))
    report = cgroup.signal(15)
    assert (report.signalled, report.refused, report.complete) == (1, (), True)
    assert leader.reap() == -15


def test_record_names_it_and_nothing_else(cgroup: Cgroup, cgroup_root: Path) -> None:
    record = cgroup.record()
    assert (record.path, record.inode) == (str(cgroup_root), cgroup.inode)
    assert record.above_inode == cgroup_root.parent.stat().st_ino


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
