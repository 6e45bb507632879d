"""Ending a tree until it is proven empty, and saying what was not proven."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.signal_report import SignalReport
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree import termination
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, Proof, terminate_tree
from spurproc.errors import SignalRefused
from tests.asleep import await_state
from tests.pace import at_this_pace
from tests.payload import Payload, build
from tests.relatives import NOBODY, Blocked, in_fork
from tests.rungs import without
from tests.trees import inside, listed, move, tree_of

Start = Callable[..., Payload]
needs_cgroup = pytest.mark.needs_cgroup_v2
pytestmark = pytest.mark.needs_facility("pidfd_send_signal")
TERM_ONLY = KillPlan(steps=((signal.SIGTERM, 0.05),))
TERM_KILL = KillPlan(steps=((signal.SIGTERM, 0.05), (signal.SIGKILL, None)))
LONG_GRACE = KillPlan(steps=((signal.SIGTERM, 120.0), (signal.SIGKILL, None)))
MASKS = ["", "cgroup_kill", "pidfd_info", "pidfs_inode", "pidfd_open"]


@needs_cgroup
@pytest.mark.parametrize("mask", MASKS)
def test_tree_that_listens_ends_at_the_first_step(cgroup: Cgroup, cgroup_root: Path, payload: Start, mask: str) -> None:
    leader = payload("double_fork_setsid", cgroup=cgroup_root)
    leader.wait_ready(2)
    with without(mask):
        start = time.monotonic()
        report = terminate_tree(tree_of(leader, cgroup=cgroup), LONG_GRACE)
    assert time.monotonic() - start < 60, "the grace was slept through"
    assert (report.empty, report.proof, report.containment) == (True, Proof.CGROUP_EMPTY, Containment.CGROUP)
    assert [step.signal for step in report.steps] == [signal.SIGTERM]
    assert report.survivors == ()


@needs_cgroup
@pytest.mark.parametrize("mask", MASKS)
def test_deaf_tree_is_killed_though_its_leader_left_early(cgroup: Cgroup, cgroup_root: Path, payload: Start, mask: str) -> None:
    """The leader's end is not the tree's."""
    leader = payload("deaf", "leave", cgroup=cgroup_root)
    leader.wait_ready(2)
    leader.wait_exit()
    with without(mask):
        report = terminate_tree(tree_of(leader, cgroup=cgroup), TERM_KILL)
    assert report.empty
    assert [step.signal for step in report.steps] == [signal.SIGTERM, signal.SIGKILL]
    assert listed(cgroup_root) == set()


@needs_cgroup
def test_stopped_tree_takes_sigterm(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """A handler runs only once it is continued, and it is."""
    leader = payload("on_term", cgroup=cgroup_root)
    leader.wait_ready()
    leader.signal(signal.SIGSTOP)
    os.waitid(os.P_PIDFD, leader.pidfd, os.WSTOPPED)
    report = terminate_tree(tree_of(leader, cgroup=cgroup), KillPlan(steps=((signal.SIGTERM, 10.0),)))
    assert report.empty
    assert leader.reap() == 42, "it did not end by its own handler"


@needs_cgroup
def test_frozen_tree_takes_sigterm(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """Frozen above and, by the job itself, below."""
    below = inside(cgroup_root, "sub")
    leader = payload("on_term", cgroup=below)
    leader.wait_ready()
    (below / "cgroup.freeze").write_text("1")
    cgroup.freeze()
    report = terminate_tree(tree_of(leader, cgroup=cgroup), KillPlan(steps=((signal.SIGTERM, 10.0),)))
    assert report.empty
    assert leader.reap() == 42


@needs_cgroup
@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(timeout_s=40)
def test_forking_tree_ends(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    payload("forker", "54323", "60", cgroup=cgroup_root).wait_ready()
    report = terminate_tree(ProcessTree(cgroup=cgroup), TERM_KILL, timeout_s=20)
    assert report.empty
    assert listed(cgroup_root) == set()


@needs_cgroup
def test_leader_moved_out_ends_too(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    mine, foreign = inside(cgroup_root, "mine"), inside(cgroup_root, "foreign")
    leader = payload("deaf", cgroup=mine)
    leader.wait_ready(2)
    move(leader.pid, foreign)
    with Cgroup.open(mine) as own:
        report = terminate_tree(tree_of(leader, cgroup=own), TERM_KILL)
    assert report.proof is Proof.CGROUP_EMPTY
    assert leader.reap() == -9


@needs_cgroup
def test_process_whose_main_thread_exited_ends(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("main_thread_exits", cgroup=cgroup_root)
    leader.wait_ready()
    assert terminate_tree(tree_of(leader, cgroup=cgroup), KillPlan(steps=((signal.SIGKILL, None),))).empty


@needs_cgroup
def test_survivors_are_named(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("deaf", cgroup=cgroup_root)
    leader.wait_ready(2)
    for pid in listed(cgroup_root):
        await_state(pid, "S")  # it was ready a moment before it held
    report = terminate_tree(tree_of(leader, cgroup=cgroup), TERM_ONLY)
    assert (report.empty, report.proof) == (False, Proof.NOT_EMPTY)
    assert {survivor.pid for survivor in report.survivors} == listed(cgroup_root)
    assert {(survivor.state, survivor.name[:4]) for survivor in report.survivors} == {("S", "deaf")}
    if os.geteuid() == 0 and Path("/proc/self/wchan").exists():
        assert all("pipe" in survivor.wait_channel for survivor in report.survivors)


@needs_cgroup
def test_overall_deadline_ends_the_plan(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("deaf", cgroup=cgroup_root)
    leader.wait_ready(2)
    start = time.monotonic()
    plan = KillPlan(steps=((signal.SIGTERM, 60.0), (signal.SIGKILL, None)))
    report = terminate_tree(tree_of(leader, cgroup=cgroup), plan, timeout_s=0.05)
    assert time.monotonic() - start < at_this_pace(5)
    assert not report.empty
    assert ([step.signal for step in report.steps], len(report.survivors)) == ([signal.SIGTERM], 2)


@needs_cgroup
def test_empty_already_sends_nothing(cgroup: Cgroup, payload: Start) -> None:
    report = terminate_tree(ProcessTree(cgroup=cgroup))
    assert (report.empty, report.steps, report.proof) == (True, (), Proof.CGROUP_EMPTY)


@needs_cgroup
def test_empty_proves_nothing_before_the_join(cgroup: Cgroup, payload: Start) -> None:
    """The leader is there, its cgroup is empty: it is ended by its group, and the cgroup is no proof."""
    leader = payload("session")
    leader.wait_ready(3)
    report = terminate_tree(tree_of(leader, cgroup=cgroup, joined=False), LONG_GRACE)
    assert (report.empty, report.proof) == (False, Proof.NONE_FOUND)
    assert leader.reap() == -15


def test_process_group_is_ended_and_never_proven(payload: Start) -> None:
    """A grandchild that called setsid lives on unseen, and the report does not deny it."""
    leader = payload("double_fork_setsid")
    leader.wait_ready(2)
    report = terminate_tree(tree_of(leader), LONG_GRACE)
    assert leader.reap() == -15
    assert (report.containment, report.proof, report.empty) == (Containment.PROCESS_GROUP, Proof.NONE_FOUND, False)


def test_deaf_process_group_is_killed_after_its_leader_was_reaped(payload: Start) -> None:
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    with Pidfd.open(leader.pid) as pidfd:
        leader.wait_exit()
        report = terminate_tree(tree_of(leader, pidfd=pidfd), LONG_GRACE)
    assert report.proof is Proof.NONE_FOUND
    assert sum(step.signalled for step in report.steps) == 2


def test_descendants_are_ended_and_proven(payload: Start) -> None:
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))
    report = terminate_tree(tree, TERM_KILL)
    assert (report.proof, report.empty) == (Proof.NO_DESCENDANTS, True)
    assert keeper.wait_ready() == b"e"


def test_dead_subreaper_proves_nothing(payload: Start) -> None:
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))
    keeper.kill()
    keeper.wait_exit()
    report = terminate_tree(tree, TERM_KILL)
    assert (report.proof, report.empty, report.steps) == (Proof.NONE_FOUND, False, ())


@needs_cgroup
def test_caller_inside_is_refused_and_nobody_is_hurt(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    tree = tree_of(leader, cgroup=cgroup)

    def ask() -> str:
        move(os.getpid(), cgroup_root)
        try:
            return str(terminate_tree(tree))
        except SignalRefused:
            return "refused"

    assert in_fork(ask) == "refused"
    assert listed(cgroup_root) == {leader.pid}


@needs_cgroup
@pytest.mark.needs_root
def test_unbounded_kill_ends_when_all_refuse(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    """Members of another user, and no right to cgroup.kill: it does not wait for ever."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()

    def ask() -> list[object]:
        report = terminate_tree(ProcessTree(cgroup=cgroup), TERM_KILL)
        return [report.empty, [survivor.pid for survivor in report.survivors], len(report.steps[-1].refused)]

    assert in_fork(ask, uid=NOBODY) == [False, [leader.pid], 1]


def test_gone_leader_is_none_found() -> None:
    with Blocked() as child:
        tree = ProcessTree(leader=Leader(identity=ProcessIdentity.of(child.pid)))
    assert terminate_tree(tree).proof is Proof.NONE_FOUND


@needs_cgroup
def test_many_members_without_a_cgroup_end_in_bounded_time(payload: Start) -> None:
    """More than are polled at once."""
    keeper = payload("subreaper", "600")
    keeper.wait_ready(3)
    start = time.monotonic()
    assert terminate_tree(ProcessTree(subreaper=ProcessIdentity.of(keeper.pid)), TERM_KILL).empty
    assert time.monotonic() - start < at_this_pace(10)


@pytest.mark.needs_facility("pidfd_open")
def test_members_beyond_a_number_are_not_held(payload: Start) -> None:
    """The descriptors are the caller's, who has other uses for them."""
    keeper = payload("subreaper", "600")
    keeper.wait_ready(3)
    with ExitStack() as held:
        assert len(termination._hold(ProcessTree(subreaper=ProcessIdentity.of(keeper.pid)), held)) == 256


@needs_cgroup
def test_leader_alone_outside_is_ended_before_anything_is_proven(cgroup_root: Path, payload: Start) -> None:
    mine, foreign = inside(cgroup_root, "mine"), inside(cgroup_root, "foreign")
    leader = payload("hold", cgroup=mine)
    leader.wait_ready()
    move(leader.pid, foreign)
    with Cgroup.open(mine) as own:
        report = terminate_tree(tree_of(leader, cgroup=own), LONG_GRACE)
    assert (report.proof, [step.signalled for step in report.steps]) == (Proof.CGROUP_EMPTY, [1])
    assert leader.reap() == -15


def test_caller_that_is_the_subreaper_ends_its_own_descendants(payload: Start) -> None:
    """The recorder's way: itself excluded, zombies that it has not reaped yet not counted."""

    def ask() -> list[object]:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        with Payload(build("double_fork_setsid")) as leader:
            leader.wait_ready(2)
            report = terminate_tree(ProcessTree(subreaper=ProcessIdentity.of(os.getpid())), LONG_GRACE)
            left = [os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]) for _ in range(2)]
            leader._process.returncode = -15
        return [report.proof.name, report.steps[0].signalled, left]

    assert in_fork(ask) == ["NO_DESCENDANTS", 2, [-15, -15]]


@needs_cgroup
def test_who_moves_in_after_the_kill_is_killed_too(
    cgroup: Cgroup, cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal has gone out once, and then somebody puts one more process there."""
    leader, late = payload("hold", cgroup=cgroup_root), payload("hold")
    leader.wait_ready()
    late.wait_ready()
    sent: list[int] = []

    def signal_and_move(tree: ProcessTree, number: int) -> SignalReport:
        report = signal_tree(tree, number)
        if not sent:
            move(late.pid, cgroup_root)
        sent.append(number)
        return report

    monkeypatch.setattr(termination, "signal_tree", signal_and_move)
    report = terminate_tree(tree_of(leader, cgroup=cgroup), KillPlan(steps=((signal.SIGKILL, None),)), timeout_s=10)
    assert (report.empty, sent, late.reap()) == (True, [signal.SIGKILL] * 2, -9)


@needs_cgroup
def test_a_stopped_member_has_the_signal_before_it_is_continued(
    cgroup: Cgroup, cgroup_root: Path, payload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not to run on for a moment first, as if nothing had been said."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    sent: list[int] = []

    def note(tree: ProcessTree, number: int) -> SignalReport:
        sent.append(number)
        return signal_tree(tree, number)

    monkeypatch.setattr(termination, "signal_tree", note)
    assert terminate_tree(tree_of(leader, cgroup=cgroup), LONG_GRACE).empty
    assert sent == [signal.SIGTERM, signal.SIGCONT]
