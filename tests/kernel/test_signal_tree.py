"""One signal to a whole tree: everybody in it once, by whatever route, and nobody else."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core._native import ffi, lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.signal_report import RefusalReason, Route
from spurproc.core.cgroup.sweep import MAX_PASSES, SeenTable
from spurproc.core.facilities import Facilities
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree import process_walk
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.errors import InvalidArgument, SignalRefused
from tests.pace import at_this_pace
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, in_fork
from tests.rungs import without
from tests.trees import inside, listed, move, released, tree_of

Start = Callable[..., Payload]
MASKS = ["", "pidfd_info", "pidfs_inode", "pidfs_inode,pidfd_info", "cgroup_kill", "pidfd_process_group", "pidfd_open"]
needs_cgroup = pytest.mark.needs_cgroup_v2
pytestmark = pytest.mark.needs_facility("pidfd_send_signal")


@needs_cgroup
@pytest.mark.parametrize("mask", MASKS)
def test_escaped_sessions_and_sub_cgroups_get_it_once(cgroup: Cgroup, cgroup_root: Path, payload: Start, mask: str) -> None:
    """Each of the four answers once, whatever the kernel has; two of them sit in sub-cgroups."""
    leader = payload("counter", cgroup=cgroup_root)
    leader.wait_ready(4)
    inside(cgroup_root, "a")
    below = inside(cgroup_root / "a", "b")
    for pid, folder in zip(sorted(listed(cgroup_root) - {leader.pid}), (cgroup_root / "a", below), strict=False):
        move(pid, folder)
    with without(mask):
        report = signal_tree(tree_of(leader, cgroup=cgroup), signal.SIGUSR1)
    assert (report.route, report.signalled, report.refused, report.complete) == (Route.CGROUP, 4, (), True)
    assert leader.wait_ready(4) == b"uuuu"
    assert signal_tree(tree_of(leader, cgroup=cgroup), signal.SIGTERM).signalled == 4
    assert leader.wait_ready(4) == b"tttt", "one of them was signalled twice"


@needs_cgroup
def test_setsid_and_double_fork_do_not_escape(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("double_fork_setsid", cgroup=cgroup_root)
    leader.wait_ready(2)
    report = signal_tree(tree_of(leader, cgroup=cgroup), signal.SIGTERM)
    assert report.signalled == 2
    cgroup.wait_empty(timeout_s=5)


@needs_cgroup
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_five_thousand_members(cgroup: Cgroup, cgroup_root: Path, payload: Start, number: int) -> None:
    leader = payload("many", "4999", cgroup=cgroup_root)
    leader.wait_ready(timeout_s=30)
    asked = signal_tree(tree_of(leader, cgroup=cgroup), 0)
    assert (asked.signalled, asked.refused, asked.complete) == (5000, (), True)
    assert signal_tree(tree_of(leader, cgroup=cgroup), number).signalled == 5000
    cgroup.wait_empty(timeout_s=30)


@needs_cgroup
@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(timeout_s=40)
def test_tree_that_forks_faster_than_a_pass(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """Deaf to SIGTERM it outruns the passes, which are bounded; SIGKILL gets all of it."""
    leader = payload("forker", "54321", "60", cgroup=cgroup_root)
    leader.wait_ready()
    tree = ProcessTree(cgroup=cgroup)
    start = time.monotonic()
    report = signal_tree(tree, signal.SIGTERM)
    assert time.monotonic() - start < at_this_pace(10)
    assert report.passes <= MAX_PASSES
    assert report.complete is (report.passes < MAX_PASSES)
    assert listed(cgroup_root)
    killed = signal_tree(tree, signal.SIGKILL)
    assert killed.complete
    cgroup.wait_empty(timeout_s=10)


@needs_cgroup
@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(timeout_s=40)
def test_forking_tree_is_killed_without_cgroup_kill(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    payload("forker", "54322", "60", cgroup=cgroup_root).wait_ready()
    with without("cgroup_kill"):
        for _ in range(20):
            if signal_tree(ProcessTree(cgroup=cgroup), signal.SIGKILL).complete:
                break
    cgroup.wait_empty(timeout_s=10)


@needs_cgroup
@pytest.mark.parametrize("mask", ["", "cgroup_kill", "pidfd_info", "pidfs_inode"])
def test_process_whose_main_thread_exited_is_killed(cgroup: Cgroup, cgroup_root: Path, payload: Start, mask: str) -> None:
    leader = payload("main_thread_exits", cgroup=cgroup_root)
    leader.wait_ready()
    with without(mask):
        report = signal_tree(tree_of(leader, cgroup=cgroup), signal.SIGKILL)
    assert report.signalled == 1
    assert leader.reap() == -9


@needs_cgroup
def test_without_pidfd_signals_the_refusal_is_named(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """A sandbox without pidfd_send_signal(2): nothing goes to a number instead, and every member is named."""
    leader = payload("session", cgroup=cgroup_root)
    leader.wait_ready(3)
    tree, pids = tree_of(leader, cgroup=cgroup), listed(cgroup_root)
    for mask, number in (("pidfd_send_signal", signal.SIGTERM), ("pidfd_send_signal,cgroup_kill", signal.SIGKILL)):
        with without(mask):
            report = signal_tree(tree, number)
        assert report.signalled == 0
        assert {refusal.pid for refusal in report.refused} == pids
        assert {(refusal.reason, refusal.errno) for refusal in report.refused} == {(RefusalReason.UNSUPPORTED, errno.ENOSYS)}
    assert listed(cgroup_root) == pids
    with without("pidfd_send_signal") as facilities:
        report = signal_tree(tree, signal.SIGKILL)
    killed = 3 if facilities.cgroup_kill else 0
    assert (report.signalled, len(report.refused)) == (killed, 3 - killed), "cgroup.kill needs no pidfd"
    assert not killed or leader.reap() == -signal.SIGKILL


@needs_cgroup
def test_group_is_the_fallback_on_an_empty_cgroup(cgroup: Cgroup, payload: Start) -> None:
    """The window before a join."""
    leader = payload("session")
    leader.wait_ready(3)
    report = signal_tree(tree_of(leader, cgroup=cgroup, joined=False), signal.SIGTERM)
    assert (report.route, report.signalled) == (Route.PROCESS_GROUP, 3)
    leader.reap()


@needs_cgroup
def test_group_is_the_fallback_on_a_removed_cgroup(cgroup_root: Path, payload: Start) -> None:
    leader = payload("session")
    leader.wait_ready(3)
    with Cgroup.create(cgroup_root / "x") as cgroup:
        cgroup.remove()
        assert signal_tree(tree_of(leader, cgroup=cgroup), signal.SIGTERM).signalled == 3
    leader.reap()


@needs_cgroup
@pytest.mark.needs_root
def test_group_is_the_fallback_on_an_unreadable_cgroup(cgroup_root: Path, payload: Start) -> None:
    leader = payload("session", str(NOBODY), cgroup=cgroup_root)
    leader.wait_ready(3)
    with Cgroup.open(cgroup_root) as cgroup:
        (cgroup_root / "cgroup.procs").chmod(0)
        tree = tree_of(leader, cgroup=cgroup)

        def ask() -> list[object]:
            report = signal_tree(tree, signal.SIGTERM)
            return [report.route.name, report.signalled, report.complete]

        assert in_fork(ask, uid=NOBODY) == ["PROCESS_GROUP", 3, False]
    assert leader.reap() == -15


@needs_cgroup
@pytest.mark.parametrize("others", [False, True], ids=["alone", "with-others-left"])
def test_leader_moved_out_is_reached_too(cgroup: Cgroup, cgroup_root: Path, payload: Start, others: bool) -> None:
    mine, foreign = inside(cgroup_root, "mine"), inside(cgroup_root, "foreign")
    if others:
        payload("hold", cgroup=mine).wait_ready()
    leader = payload("hold", cgroup=mine)
    leader.wait_ready()
    stranger = payload("hold", cgroup=foreign)
    stranger.wait_ready()
    move(leader.pid, foreign)
    with Cgroup.open(mine) as own:
        report = signal_tree(tree_of(leader, cgroup=own), signal.SIGTERM)
    assert report.signalled == 1 + others
    assert Route.PROCESS_GROUP in report.route
    assert leader.reap() == -15
    assert listed(foreign) == {stranger.pid}


@needs_cgroup
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_tree_that_its_cgroup_holds_is_not_looked_for_in_proc(
    cgroup: Cgroup, cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """On a node of thousands a walk takes longer than the signal."""
    leader = payload("double_fork_setsid", cgroup=cgroup_root)
    leader.wait_ready(2)
    walks: list[int] = []

    def walk() -> dict[int, process_walk.ProcessRow]:
        walks.append(number)
        return {}

    monkeypatch.setattr(process_walk, "read_processes", walk)
    report = signal_tree(tree_of(leader, cgroup=cgroup), number)
    assert (report.route, report.signalled, walks) == (Route.CGROUP, 2, [])
    assert leader.reap() == -number


@needs_cgroup
@pytest.mark.parametrize("mask", ["", "pidfd_info", "pidfs_inode", "pidfd_open"])
def test_listed_pid_of_a_stranger_is_not_signalled(cgroup: Cgroup, cgroup_root: Path, payload: Start, mask: str) -> None:
    """What a recycled number in cgroup.procs looks like to the pass: a living process that is in another cgroup."""
    stranger = payload("hold", cgroup=inside(cgroup_root, "elsewhere"))
    stranger.wait_ready()
    with without(mask), Cgroup.open(inside(cgroup_root, "mine")) as mine:
        bits = Facilities.current().bits
        seen = SeenTable(bits)
        path = ffi.new("char[]", str(mine.kernel_path()).encode())
        sweep = ffi.new(
            "spur_sweep_t *",
            {"signal": 9, "facilities": bits, "cgroup_id": mine.inode, "tree_path": path, "seen": seen.native},
        )
        assert lib.spur_members_signal(sweep, ffi.new("int[]", [stranger.pid]), 1) == 0
        assert (sweep.signalled, sweep.moved) == (0, 1)  # type: ignore[attr-defined]  # C data
    assert released(stranger) == 0


@needs_cgroup
def test_caller_in_the_cgroup_is_refused_before_anybody_is_signalled(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    tree = tree_of(leader, cgroup=cgroup)

    def ask() -> str:
        move(os.getpid(), cgroup_root)
        try:
            return str(signal_tree(tree, signal.SIGKILL))
        except SignalRefused as error:
            return str(error)

    assert "the caller lives in it" in in_fork(ask)
    assert listed(cgroup_root) == {leader.pid}


@needs_cgroup
@pytest.mark.needs_root
def test_member_of_another_user_is_refused_in_a_cgroup_too(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    tree = ProcessTree(cgroup=cgroup)

    def ask() -> list[object]:
        report = signal_tree(tree, signal.SIGTERM)
        return [report.signalled, [[refusal.pid, refusal.reason.name] for refusal in report.refused]]

    assert in_fork(ask, uid=NOBODY) == [0, [[leader.pid, RefusalReason.NOT_PERMITTED.name]]]


@needs_cgroup
@pytest.mark.needs_root
@pytest.mark.needs_facility("cgroup_kill")
def test_kill_in_a_delegated_cgroup_crosses_users(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """The pidfd is refused, cgroup.kill is ours to write: they are counted as reached, since they are gone."""
    payload("many", "3", cgroup=cgroup_root).wait_ready()
    os.chown(cgroup_root / "cgroup.kill", NOBODY, NOBODY)

    def ask() -> list[int]:
        report = signal_tree(ProcessTree(cgroup=cgroup), signal.SIGKILL)
        return [report.signalled, len(report.refused)]

    assert in_fork(ask, uid=NOBODY) == [4, 0]
    assert listed(cgroup_root) == set()


@pytest.mark.parametrize("bad", [-1, 65, True])
def test_signal_that_is_none_is_refused(bad: int) -> None:
    with Blocked() as child, pytest.raises(InvalidArgument):
        signal_tree(ProcessTree(leader=Leader(identity=ProcessIdentity.of(child.pid))), bad)
