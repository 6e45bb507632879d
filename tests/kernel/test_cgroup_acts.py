"""Acts on all of one cgroup, on the real file system: freeze, signal, kill and remove, and whom they never hit."""

from __future__ import annotations

import ctypes
import inspect
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.cgroup import cgroup as cgroup_module
from spurproc.core.cgroup import removal as removal_module
from spurproc.core.cgroup import sweep as sweep_module
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.events import CgroupEvents
from spurproc.core.cgroup.signal_report import RefusalReason, Route
from spurproc.core.cgroup.sweep import CgroupSweep, SeenTable
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.errors import Busy, SignalRefused, SystemCallError, WaitTimeout
from tests.cgroup_folder import home_of
from tests.payload import Payload
from tests.relatives import NOBODY, in_fork
from tests.rungs import environment, without
from tests.trees import inside, move

pytestmark = pytest.mark.needs_cgroup_v2
Start = Callable[..., Payload]
_CLONE_NEWCGROUP = 0x02000000


def test_freeze_stops_and_thaw_undoes_it_below_too(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    below = inside(cgroup_root, "sub")
    payload("hold", cgroup=below).wait_ready()
    cgroup.freeze()
    assert cgroup.events().read().frozen  # not only on its way: that takes the kernel some milliseconds
    (below / "cgroup.freeze").write_text("1")
    assert "frozen 1" in (below / "cgroup.events").read_text()
    cgroup.thaw()
    assert cgroup.events().wait(lambda: "frozen 0" in (below / "cgroup.events").read_text(), None)


def test_a_freeze_that_does_not_come_is_said(cgroup: Cgroup, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a member sleeps uninterruptibly: it was asked for, and is not there."""
    monkeypatch.setattr(cgroup_module, "write_text", lambda *_: None)
    with pytest.raises(WaitTimeout, match="frozen"):
        cgroup.freeze(timeout_s=0.05)


def test_kill_reaches_an_escaped_session(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """A grandchild that called setsid and lost its parent is a member all the same."""
    payload("double_fork_setsid", cgroup=cgroup_root).wait_ready(2)
    report = cgroup.kill()
    cgroup.wait_empty(timeout_s=5)
    assert (report.signalled, report.complete, report.route) == (2, True, Route.CGROUP)


@pytest.mark.needs_facility("pidfd_send_signal")
def test_kill_reaches_whose_main_thread_has_exited(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """cgroup.kill misses it; the sweep by pidfd does not."""
    leader = payload("main_thread_exits", cgroup=cgroup_root)
    leader.wait_ready()
    (cgroup_root / "cgroup.kill").write_text("1")
    assert cgroup.liveness() is Liveness.ALIVE
    cgroup.kill()
    leader.wait_exit()
    assert leader.reap() == -9


@pytest.mark.parametrize("mask", ["", "pidfd_info"], ids=["by-id", "by-name"])
def test_cgroup_that_holds_the_caller_is_refused(cgroup_root: Path, mask: str) -> None:
    """For signal, kill and freeze, and also from a sub-cgroup: by the id of its own cgroup, or by its name."""
    below = inside(cgroup_root, "sub")

    def ask() -> list[str]:
        move(os.getpid(), below)
        refused = []
        with without(mask), Cgroup.open(cgroup_root) as cgroup:
            for act in (lambda: cgroup.signal(15), cgroup.kill, cgroup.freeze):
                try:
                    act()
                except SignalRefused as error:
                    refused.append(str(error).split()[1])
            return [*refused, str(cgroup.holds_caller())]

    assert in_fork(ask) == ["signal", "signal", "freeze", "True"]
    assert "frozen 0" in (cgroup_root / "cgroup.events").read_text()


@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.needs_root
@pytest.mark.own_pid_namespace
def test_init_in_a_cgroup_is_named_and_spared(
    cgroup: Cgroup, cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel itself drops what an init gets from its own pid namespace, and who is not killed is not waited for."""
    monkeypatch.setattr(sweep_module, "DYING_S", 30.0)
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    home = home_of(1)  # in the one above `cgroup_root` a controller may be handed down by now, and nobody may be there
    move(1, cgroup_root)
    try:
        begun = time.monotonic()
        report = cgroup.kill()
        assert time.monotonic() - begun < 15
        assert [(refusal.pid, refusal.reason) for refusal in report.refused] == [(1, RefusalReason.INIT)]
        assert (report.signalled, leader.reap()) == (1, -9)
    finally:
        move(1, home)


@pytest.mark.needs_facility("pidfd_send_signal")
def test_caller_that_gets_in_after_the_look_is_spared(cgroup_root: Path) -> None:
    """Somebody moved it there: the others end by the pidfds, and cgroup.kill, which would end it too, is left alone."""

    def ask() -> list[object]:
        other = os.fork()
        if other == 0:
            signal.pause()
        move(other, cgroup_root)
        move(os.getpid(), cgroup_root)
        with Cgroup.open(cgroup_root) as cgroup:
            swept = CgroupSweep(cgroup.fileno(), signal.SIGKILL, SeenTable(Facilities.current().bits)).run()
        status = os.waitpid(other, 0)[1]
        return [swept.signalled, [refusal.reason.value for refusal in swept.refused], os.waitstatus_to_exitcode(status)]

    assert in_fork(ask) == [1, [RefusalReason.CALLER.value], -9]


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
            # By itself: join() returns while the kernel still ends the thread.
            (domain / "cgroup.threads").write_text(str(threading.get_native_id()))

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


def test_without_a_second_descriptor_that_is_said(cgroup: Cgroup) -> None:
    """And not that the caller lives in it. Where its cgroup's id is not told, each look is over before the next: one would do."""
    inside(Path(cgroup.path), "below")
    room = 1 if Facilities.current().pidfd_info else 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(cgroup.fileno()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, hard))
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
def test_caller_that_may_not_look_counts_as_inside(cgroup_root: Path) -> None:
    """From a cgroup namespace the names do not compare, and another user has shut a part: the caller may stand there."""
    inside(inside(cgroup_root, "apart"), "shut").chmod(0)

    def ask() -> bool:
        move(os.getpid(), inside(cgroup_root, "own"))
        assert ctypes.CDLL(None).unshare(_CLONE_NEWCGROUP) == 0
        os.setresuid(NOBODY, NOBODY, NOBODY)
        with without("pidfd_info"):
            return Cgroup.open(cgroup_root / "apart").holds_caller()

    assert in_fork(ask)


@pytest.mark.needs_facility("pidfd_send_signal")
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


def test_remove_takes_what_is_below_deepest_first(cgroup_root: Path) -> None:
    with Cgroup.create(cgroup_root / "x") as cgroup:
        (cgroup_root / "x" / "a" / "b" / "c").mkdir(parents=True)
        (cgroup_root / "x" / "d").mkdir()
        cgroup.remove()
        assert not (cgroup_root / "x").exists()
        cgroup.remove()


@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.needs_root
def test_depth_is_the_jobs_to_choose(cgroup_root: Path, payload: Start) -> None:
    """Deeper than Python recurses and than descriptors go: found, signalled and removed all the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    recursion = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)  # the kernel takes minutes to make a thousand levels where it is slow
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, hard))
    try:
        with Cgroup.create(cgroup_root / "x") as cgroup:
            below = Path(cgroup.path)
            for _ in range(300):
                below = inside(below, "d")
            leader = payload("hold", cgroup=below)
            leader.wait_ready()
            assert cgroup.pids() == {leader.pid}
            assert cgroup.signal(15).signalled == 1
            assert leader.reap() == -15
            cgroup.remove(timeout_s=10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        sys.setrecursionlimit(recursion)
    assert not (cgroup_root / "x").exists()


def test_remove_right_after_a_kill(cgroup_root: Path, payload: Start) -> None:
    """The kernel says EBUSY until the members are gone, and for a moment more."""
    with Cgroup.create(cgroup_root / "x") as cgroup:
        payload("many", "50", cgroup=cgroup_root / "x").wait_ready()
        cgroup.kill()
        cgroup.remove()
    assert not (cgroup_root / "x").exists()


def test_remove_tries_nothing_while_something_lives_there(
    cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps until "populated 0", and does not ask the kernel again and again."""
    wait, remove_named, populated = CgroupEvents.wait, removal_module._remove_named, list[bool]()

    def wait_and_see_it_end(events: CgroupEvents, reached: Callable[[], bool], deadline: float | None) -> bool:
        leader.release()
        return wait(events, reached, deadline)

    def try_it(folder_fd: int, name: str, inode: int) -> int:
        populated.append("populated 1" in (cgroup_root / "x" / "cgroup.events").read_text())
        leader.release()
        return remove_named(folder_fd, name, inode)

    with Cgroup.create(cgroup_root / "x") as cgroup:
        leader = payload("hold", cgroup=cgroup_root / "x")
        leader.wait_ready()
        monkeypatch.setattr(CgroupEvents, "wait", wait_and_see_it_end)
        monkeypatch.setattr(removal_module, "_remove_named", try_it)
        cgroup.remove(timeout_s=20)
    assert not any(populated)
    assert populated


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
    listed = sorted(cgroup.pids())
    killed = cgroup.kill()
    print(json.dumps([asked.signalled, seen, listed, killed.signalled, len(killed.refused)]))
"""


@pytest.mark.needs_facility("pidfd_send_signal")
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


@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_info")
@pytest.mark.needs_facility("pidfs_inode")
@pytest.mark.parametrize("mask", ["", "pidfd_info", "pidfs_inode", "pidfd_open"])
def test_proc_of_another_pid_namespace_is_never_believed(cgroup_root: Path, mask: str) -> None:
    """There the member's number names a stranger. Without /proc only the strongest rung is left."""
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", _FOREIGN_PROC, str(cgroup_root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, env=environment(mask))
    assert done.stdout.strip() == ("Unsupported" if mask else "[2, [], 1, 15]"), done.stderr


@pytest.mark.needs_facility("pidfd_send_signal")
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


@pytest.mark.needs_facility("pidfd_send_signal")
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
