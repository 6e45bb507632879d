"""Whether anything of a tree lives, and many things asked at once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.liveness import Subject, liveness_many, tree_liveness
from spurproc.core.tree.members import ProcessTree
from spurproc.errors import InvalidArgument
from tests.payload import Payload
from tests.pidfds import open_pidfd, wait_ended
from tests.relatives import NOBODY, Blocked, in_fork
from tests.trees import inside, move, tree_of

Start = Callable[..., Payload]
needs_cgroup = pytest.mark.needs_cgroup_v2


def _ask(tree: ProcessTree) -> tuple[str, str, bool]:
    seen = tree_liveness(tree)
    return seen.liveness.value, seen.evidence, seen.escaped


@needs_cgroup
def test_populated_cgroup_is_alive_whatever_the_leader(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("deaf", "leave", cgroup=cgroup_root)
    leader.wait_ready(2)
    leader.wait_exit()
    assert _ask(tree_of(leader, cgroup=cgroup)) == ("alive", "cgroup.events", False)


@needs_cgroup
def test_empty_cgroup_and_gone_leader_are_gone(cgroup: Cgroup, cgroup_root: Path, payload: Start) -> None:
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    tree = tree_of(leader, cgroup=cgroup)
    leader.release()
    leader.wait_exit()
    assert _ask(tree) == ("gone", "cgroup.events", False)


@needs_cgroup
@pytest.mark.parametrize("held", [True, False], ids=["pidfd", "identity"])
@pytest.mark.parametrize("removed", [True, False], ids=["removed", "empty"])
def test_leader_moved_out_is_alive_and_escaped(cgroup_root: Path, payload: Start, held: bool, removed: bool) -> None:
    mine, foreign = inside(cgroup_root, "mine"), inside(cgroup_root, "foreign")
    leader = payload("hold", cgroup=mine)
    leader.wait_ready()
    with Cgroup.open(mine) as own, Pidfd.open(leader.pid) as pidfd:
        tree = tree_of(leader, cgroup=own, pidfd=pidfd if held else None)
        move(leader.pid, foreign)
        if removed:
            own.remove()
        seen = tree_liveness(tree)
        assert (seen.liveness, seen.escaped) == (Liveness.ALIVE, True)
        assert ("removed" if removed else "empty") in seen.detail
        leader.release()
        leader.wait_exit()
        assert tree_liveness(tree).liveness is Liveness.GONE


@needs_cgroup
def test_empty_cgroup_says_nothing_before_the_join(cgroup: Cgroup, payload: Start) -> None:
    leader = payload("hold")
    leader.wait_ready()
    seen = tree_liveness(tree_of(leader, cgroup=cgroup, joined=False))
    assert (seen.liveness, seen.escaped) == (Liveness.ALIVE, False)
    assert _ask(ProcessTree(cgroup=cgroup, joined=False))[0] == "unknown"
    assert _ask(ProcessTree(cgroup=cgroup))[0] == "gone"


@needs_cgroup
@pytest.mark.needs_root
def test_unreadable_cgroup_leaves_it_to_the_leader(cgroup_root: Path, payload: Start) -> None:
    """One that lives is enough for ALIVE; one that is gone proves nothing about who else is in there."""
    leader = payload("hold", cgroup=cgroup_root)
    leader.wait_ready()
    (cgroup_root / "cgroup.events").chmod(0)
    identity = ProcessIdentity.of(leader.pid)

    def ask() -> list[tuple[str, bool]]:
        with Cgroup.open(cgroup_root) as cgroup:
            trees = (ProcessTree(leader=Leader(identity=identity), cgroup=cgroup), ProcessTree(cgroup=cgroup))
            seen = map(tree_liveness, trees)
            return [(one.liveness.value, one.escaped) for one in seen]

    assert in_fork(ask, uid=NOBODY) == [["alive", False], ["unknown", False]]
    leader.kill()
    leader.reap()
    assert identity.liveness() is Liveness.GONE
    assert in_fork(ask, uid=NOBODY) == [["unknown", False], ["unknown", False]]


@needs_cgroup
def test_leader_that_cannot_be_told_is_never_gone(cgroup: Cgroup) -> None:
    """Named in another pid namespace: the empty cgroup proves nothing about it, nor does an empty group."""
    foreign = dataclasses.replace(ProcessIdentity.of(os.getpid()), pid_namespace=1, pid=2**31 - 2, pidfs_inode=None)
    assert _ask(ProcessTree(leader=Leader(identity=foreign), cgroup=cgroup))[0] == "unknown"
    assert _ask(ProcessTree(leader=Leader(identity=foreign)))[0] == "unknown"


def test_group_left_behind_is_alive(payload: Start) -> None:
    leader = payload("session", "0", "leave")
    leader.wait_ready(3)
    with Pidfd.open(leader.pid) as pidfd:
        leader.wait_exit()
        held = tree_of(leader, pidfd=pidfd)
        assert _ask(held) == ("alive", "group", False)
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        left = [open_pidfd(pid) for pid in pids if _session(pid) == leader.pid]
        leader.release()
        leader.reap()
        for member in left:
            wait_ended(member)
        assert _ask(held)[0] == "gone"


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def test_descendants_decide_without_a_cgroup(payload: Start) -> None:
    keeper = payload("subreaper")
    keeper.wait_ready(3)
    tree = ProcessTree(subreaper=ProcessIdentity.of(keeper.pid))
    assert _ask(tree) == ("alive", "descendants", False)
    keeper.kill()
    keeper.wait_exit()
    assert _ask(tree) == ("unknown", "descendants", False), "its orphans went to another and may live"


def test_living_subreaper_without_descendants_is_gone() -> None:
    with Blocked() as child:
        assert _ask(ProcessTree(subreaper=ProcessIdentity.of(child.pid))) == ("gone", "descendants", False)


@needs_cgroup
def test_many_of_every_kind_in_order(cgroup_root: Path, payload: Start) -> None:
    full, empty, removed = (inside(cgroup_root, name) for name in ("full", "empty", "removed"))
    leader = payload("hold", cgroup=full)
    leader.wait_ready()
    with Blocked() as ended, Cgroup.open(full) as a, Cgroup.open(empty) as b, Cgroup.open(removed) as c:
        gone = ProcessIdentity.of(ended.pid)
        gone_pidfd = Pidfd.open(ended.pid)
        records = [a.record(), b.record(), c.record(), dataclasses.replace(a.record(), path="/proc")]
        c.remove()
        ended.end()
        items: list[Subject] = [a, b, c, ProcessIdentity.of(leader.pid), gone, gone_pidfd, *records]
        alive, dead, unknown = Liveness.ALIVE, Liveness.GONE, Liveness.UNKNOWN
        assert liveness_many(items) == [alive, dead, dead, alive, dead, dead, alive, dead, dead, unknown]
        assert liveness_many(iter(items)) == [item.liveness() for item in items]
        gone_pidfd.close()
        b.close()
        assert liveness_many([b, a]) == [unknown, alive], "a closed cgroup may not answer for whoever has its descriptor now"
    assert liveness_many([]) == []


@needs_cgroup
@pytest.mark.needs_root
def test_unreadable_is_unknown_among_many(cgroup_root: Path, payload: Start) -> None:
    payload("hold", cgroup=cgroup_root).wait_ready()
    (cgroup_root / "cgroup.events").chmod(0)

    def ask() -> list[str]:
        with Cgroup.open(cgroup_root) as cgroup:
            return [found.value for found in liveness_many([cgroup, cgroup])]

    assert in_fork(ask, uid=NOBODY) == ["unknown", "unknown"]


def test_leader_is_never_held_by_the_pidfd_of_another(payload: Start) -> None:
    """What would be watched could not be signalled."""
    leader, other = payload("hold"), payload("hold")
    with Pidfd.open(leader.pid) as own, Pidfd.open(other.pid) as foreign:
        assert Leader(identity=ProcessIdentity.of(leader.pid), pidfd=own).liveness() is Liveness.ALIVE
        with pytest.raises(InvalidArgument, match=str(other.pid)):
            Leader(identity=ProcessIdentity.of(leader.pid), pidfd=foreign)
