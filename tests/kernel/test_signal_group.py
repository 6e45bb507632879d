"""One signal to a tree without a cgroup: the leader's group and session, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from spurproc.core.cgroup.signal_report import RefusalReason, Route
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree import process_walk
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree, members
from spurproc.core.tree.process_walk import GroupOf, ProcessRow, read_processes
from spurproc.core.tree.signalling import signal_tree
from spurproc.core.tree.termination import KillPlan, Proof, terminate_tree
from spurproc.errors import SignalRefused
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, in_fork, reborn
from tests.rungs import without
from tests.trees import released, tree_of

Start = Callable[..., Payload]
pytestmark = pytest.mark.needs_facility("pidfd_send_signal")


def _members_of_session(leader: Payload) -> set[int]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {pid for pid in pids if _session(pid) == leader.pid}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


@pytest.mark.parametrize("mask", ["", "pidfs_inode", "pidfd_process_group", "pidfd_open"])
def test_group_and_session_without_a_cgroup(payload: Start, mask: str) -> None:
    leader = payload("session")
    leader.wait_ready(3)
    bystander = payload("hold")
    bystander.wait_ready()
    with without(mask):
        tree = tree_of(leader)
        assert tree.containment is Containment.PROCESS_GROUP
        assert {row.pid for row in members(tree)} == _members_of_session(leader)
        report = signal_tree(tree, signal.SIGTERM)
    assert (report.route, report.signalled, report.complete) == (Route.PROCESS_GROUP, 3, True)
    assert leader.reap() == -15
    assert released(bystander) == 0, "a stranger was signalled"


@pytest.mark.parametrize("held", [True, False], ids=["pidfd-held", "identity-only"])
@pytest.mark.parametrize("mask", ["", "pidfs_handle", "pidfs_inode", "pidfd_process_group"])
def test_group_of_a_reaped_leader(payload: Start, mask: str, held: bool) -> None:
    """Reached while a pidfd from before, or its inode, names it; the number alone may be a stranger's: nobody is signalled."""
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    identity = ProcessIdentity.of(leader.pid)
    with Pidfd.open(leader.pid) as pidfd:
        leader.wait_exit()
        leader.reap()
        left = _members_of_session(leader)
        assert len(left) == 2
        with without(mask) as facilities:
            report = signal_tree(ProcessTree(leader=Leader(identity=identity, pidfd=pidfd if held else None)), signal.SIGTERM)
            works = facilities.pidfd_process_group and (held or (facilities.pidfs_handle and facilities.pidfs_inode))
    assert report.signalled == (2 if works else 0)
    assert report.route is (Route.PROCESS_GROUP if works else Route.NOBODY)


def test_without_pidfd_signals_nobody_is_signalled(payload: Start) -> None:
    leader = payload("session")
    leader.wait_ready(3)
    with without("pidfd_send_signal"):
        report = signal_tree(tree_of(leader), signal.SIGKILL)
        ended = terminate_tree(tree_of(leader), KillPlan(steps=((signal.SIGKILL, None),)))
    assert (report.signalled, len(report.refused)) == (0, 3)
    assert {refusal.reason for refusal in report.refused} == {RefusalReason.UNSUPPORTED}
    assert (ended.proof, len(ended.survivors)) == (Proof.NOT_EMPTY, 3), "ended early, since nobody can be reached"
    assert released(leader) == 0


def test_group_of_a_zombie_leader(payload: Start) -> None:
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    leader.wait_exit()
    assert signal_tree(tree_of(leader), signal.SIGTERM).signalled == 2


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfs_inode")
@pytest.mark.own_pid_namespace
@pytest.mark.parametrize("held", [True, False])
def test_recycled_pid_is_never_signalled(held: bool) -> None:
    """The leader's number belongs to a stranger who leads a group under it."""
    with Blocked() as first:
        identity = ProcessIdentity.of(first.pid)
        with Pidfd.open(first.pid) as pidfd:
            first.reap()
            with reborn(first.pid) as stranger:
                os.setpgid(stranger.pid, stranger.pid)
                report = signal_tree(ProcessTree(leader=Leader(identity=identity, pidfd=pidfd if held else None)), signal.SIGKILL)
                assert report.signalled == 0
                assert report.route is Route.NOBODY
                assert Pidfd.open(stranger.pid).liveness().value == "alive"


@pytest.mark.own_pid_namespace
def test_group_whose_number_is_handed_on_during_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the leader's when the walk began: whoever is found under it by then is a stranger."""
    strangers: list[Blocked] = []

    def walk_late() -> dict[int, ProcessRow]:
        first.reap()
        strangers.append(reborn(first.pid))
        os.setpgid(first.pid, first.pid)
        return read_processes()

    with Blocked() as first, Pidfd.open(first.pid) as pidfd:
        with GroupOf(ProcessIdentity.of(first.pid), pidfd) as group:
            monkeypatch.setattr(process_walk, "read_processes", walk_late)
            assert group.find() == []
        strangers[0].reap()


@pytest.mark.needs_facility("pidfd_process_group")
def test_member_that_left_the_session_keeps_the_number_no_more() -> None:
    """The leader is reaped and nobody else is left: the number may be anybody's the next moment."""
    (go, let_go), (said, say) = os.pipe(), os.pipe()
    leader = os.fork()
    if leader == 0:
        os.setsid()
        _lead(go, let_go, say)
    with Pidfd.open(leader) as pidfd, GroupOf(ProcessIdentity.of(leader), pidfd) as group:
        assert os.read(said, 1) == b"m"
        assert len(group.find()) == 2
        pidfd.send_signal(signal.SIGKILL)
        pidfd.wait(timeout_s=10)
        assert group.pinned()
        os.write(let_go, b"g")
        assert os.read(said, 1) == b"s"
        assert not group.pinned()
    for fd in (go, let_go, say, said):
        os.close(fd)


def _lead(go: int, let_go: int, say: int) -> None:
    """The leader waits to be killed; its child, a member, leaves the session when it is told to, and ends when we do."""
    if os.fork() == 0:
        os.close(let_go)
        os.write(say, b"m")
        os.read(go, 1)
        os.setsid()
        os.write(say, b"s")
        os.read(go, 1)
        os._exit(0)
    os.close(let_go)
    signal.pause()


def test_caller_in_the_group_is_refused() -> None:
    """Its own group, and itself as the leader."""

    def ask() -> list[str]:
        os.setsid()
        found = []
        with Blocked() as child:
            for leader in (os.getpid(), child.pid):
                os.setpgid(child.pid, child.pid if leader == child.pid else os.getpid())
                try:
                    found.append(
                        str(
                            signal_tree(ProcessTree(leader=Leader(identity=ProcessIdentity.of(leader))), signal.SIGTERM).signalled
                        )
                    )
                except SignalRefused:
                    found.append("refused")
        return found

    assert in_fork(ask) == ["refused", "1"]


@pytest.mark.parametrize("by", ["group", "session"])
def test_caller_in_the_group_or_session_of_another_is_refused(by: str) -> None:
    """Of a child that leads a group which it joined, and of a parent that leads the session."""

    def refused(pid: int) -> bool:
        try:
            signal_tree(ProcessTree(leader=Leader(identity=ProcessIdentity.of(pid))), signal.SIGWINCH)
        except SignalRefused:
            return True
        return False

    def in_group() -> bool:
        with Blocked() as child:
            os.setpgid(child.pid, child.pid)
            os.setpgid(0, child.pid)
            assert [row.pid for row in members(ProcessTree(leader=Leader(identity=ProcessIdentity.of(child.pid))))] == [child.pid]
            return refused(child.pid)

    def in_session() -> bool:
        os.setsid()
        leader = os.getpid()

        def ask() -> bool:
            os.setpgid(0, 0)
            return refused(leader)

        return bool(in_fork(ask))

    assert in_fork({"group": in_group, "session": in_session}[by])


@pytest.mark.needs_root
def test_who_may_not_be_signalled_is_named(payload: Start) -> None:
    leader = payload("session")
    leader.wait_ready(3)
    tree = tree_of(leader)

    def ask() -> list[object]:
        report = signal_tree(tree, signal.SIGTERM)
        return [
            report.signalled,
            [[refusal.pid, refusal.reason.value, refusal.errno] for refusal in report.refused],
            report.complete,
        ]

    signalled, refused, complete = in_fork(ask, uid=NOBODY)
    assert (signalled, complete) == (0, True)
    assert {tuple(refusal) for refusal in refused} == {(pid, "not permitted", 1) for pid in _members_of_session(leader)}


def test_gone_already_is_no_error() -> None:
    with Blocked() as child:
        tree = ProcessTree(leader=Leader(identity=ProcessIdentity.of(child.pid)))
    report = signal_tree(tree, signal.SIGTERM)
    assert (report.signalled, report.refused, report.complete, report.route) == (0, (), True, Route.NOBODY)


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_process_group")
@pytest.mark.own_pid_namespace(mount=True)
def test_group_under_hidepid_is_signalled_through_the_leaders_pidfd(payload: Start) -> None:
    """A user who cannot see /proc still holds the leader, and through it the group; how many took the signal is not known.

    Three of the session are in sight, and the one in a group of its own was not even asked.
    """
    subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)
    leader = payload("session", str(NOBODY))
    leader.wait_ready(3)
    with Pidfd.open(leader.pid) as pidfd:
        tree = tree_of(leader, pidfd=pidfd)

        def ask(number: int) -> list[object]:
            report = signal_tree(tree, number)
            return [report.route.name, report.signalled, report.complete]

        assert in_fork(lambda: len(members(tree)), uid=NOBODY) == 3
        for number in (0, signal.SIGTERM):
            assert in_fork(lambda number=number: ask(number), uid=NOBODY) == ["PROCESS_GROUP", 1, False]  # type: ignore[misc]
    assert leader.reap() == -15


@pytest.mark.needs_facility("pidfd_process_group")
def test_session_outlives_its_group(payload: Start) -> None:
    """The leader is reaped and its group empty: a member found before, there yet, keeps the number from strangers."""
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    identity = ProcessIdentity.of(leader.pid)
    with Pidfd.open(leader.pid) as pidfd, GroupOf(identity, pidfd) as group:
        leader.wait_exit()
        leader.reap()
        found = {row.process_group == leader.pid: row for row in group.find()}
        with Pidfd.open(found[True].pid) as member:
            member.send_signal(signal.SIGKILL)
            member.wait(timeout_s=5)
        assert [row.pid for row in group.find()] == [found[False].pid]


@pytest.mark.needs_facility("pidfd_process_group")
@pytest.mark.own_pid_namespace
def test_reaped_leader_of_another_namespace_has_no_group_here(payload: Start) -> None:
    """No number of ours is its: 0 is shown for all whose group leads outside, the init of this namespace among them."""
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    identity = replace(ProcessIdentity.of(leader.pid), pid_namespace=1)
    fd = os.dup(leader.pidfd)
    leader.wait_exit()
    leader.reap()
    with Pidfd.take_fd(fd) as pidfd, GroupOf(identity, pidfd) as group:
        assert (pidfd.pid, group.signal_group(0)) == (0, True)
        assert (group.pinned(), group.find()) == (False, [])


def test_a_number_that_is_not_the_leaders_any_more_costs_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks about many trees that are gone does not read /proc for each."""

    def walk() -> dict[int, ProcessRow]:
        raise AssertionError("it walked")

    with Blocked() as child, Pidfd.open(child.pid) as pidfd, GroupOf(ProcessIdentity.of(child.pid), pidfd) as group:
        child.reap()
        monkeypatch.setattr(process_walk, "read_processes", walk)
        assert group.find() == []
