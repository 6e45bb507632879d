"""Who is in a tree, by which ways, and who has left what should hold them."""

from __future__ import annotations

import enum
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import ProcessIdentity, number_here
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.process_walk import Descent, GroupOf, ProcessRow, read_process, read_processes
from spurproc.errors import SpurprocError

__all__ = ["Escape", "Member", "Way", "below", "ordered", "same_process", "tree_members"]


class Way(enum.Enum):
    """Why a process counts as a member."""

    LEADER = "leader"
    CGROUP = "cgroup"
    """It is in the tree's own cgroup, or in one below."""
    DESCENDANT = "descendant"
    """Its parent is a member, or the tree's subreaper is above it."""
    GROUP = "group"
    """It is in the leader's process group or session."""


class Escape(enum.Enum):
    """How a member has left what should hold it."""

    CGROUP = "outside-cgroup"
    """It is known by its parent or its group, and is in another cgroup than the tree's."""
    PARENT = "re-parented"
    """Its parent is none of the tree: its own has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process of a tree, as a walk of /proc found it. `depth`: how many members stand above it."""

    row: ProcessRow
    ways: frozenset[Way]
    escape: Escape | None = None
    depth: int = 0


def tree_members(tree: ProcessTree, *, excluded: Iterable[int] = ()) -> list[Member]:
    """All that can be found, zombies that a member has not reaped included; this process and `excluded` are not.

    Parents before their children. Does not block. Raises SystemCallError where a walk cannot be finished.
    """
    ways: defaultdict[ProcessRow, set[Way]] = defaultdict(set)
    before = _pids(tree.cgroup)
    for way, row in _held(tree, before or frozenset()):
        ways[row].add(way)
    for row in below(ways, read_processes()):
        ways[row].add(Way.DESCENDANT)
    after = _pids(tree.cgroup)  # who was born since the first reading is in this one
    held = None if before is None or after is None else before | after
    out = {os.getpid(), *excluded}
    members = _merged(ways)
    return ordered([_marked(member, held) for member in members if member.row.pid not in out])


def same_process(row: ProcessRow, other: ProcessRow | None) -> bool:
    """Whether two readings are of one process: by its number and its start."""
    return other is not None and (row.pid, row.start_ticks) == (other.pid, other.start_ticks)


def below(found: Iterable[ProcessRow], walk: dict[int, ProcessRow]) -> Iterator[ProcessRow]:
    """Those whose parents are `found`, or are such themselves; nobody is followed to the children of whoever got his number."""
    children: defaultdict[int, list[ProcessRow]] = defaultdict(list)
    for row in walk.values():
        children[row.parent_pid].append(row)
    pending = list(found)
    while pending:
        parent = pending.pop()
        own = [child for child in children.get(parent.pid, ()) if child.start_ticks >= parent.start_ticks]
        if own and _kept(parent):
            del children[parent.pid]
            pending.extend(own)
            yield from own


def _kept(parent: ProcessRow) -> bool:
    """Whether its number is nobody else's by now."""
    now = read_process(parent.pid)
    return now is None or same_process(parent, now)


def _pids(cgroup: Cgroup | None) -> frozenset[int] | None:
    try:
        return None if cgroup is None else cgroup.pids()
    except SpurprocError:  # removed, or not to be read: the tree's liveness says which
        return None


def _held(tree: ProcessTree, pids: frozenset[int]) -> Iterator[tuple[Way, ProcessRow]]:
    """Those whom the tree's own means name."""
    yield from ((Way.CGROUP, row) for row in map(read_process, sorted(pids)) if row is not None)
    if tree.subreaper is not None:
        yield from ((Way.DESCENDANT, row) for row in Descent(tree.subreaper).find())
    if tree.leader is None:
        return
    if (row := _leader_row(tree.leader)) is not None:
        yield Way.LEADER, row
    with GroupOf(tree.leader.identity, tree.leader.pidfd) as group:
        yield from ((Way.GROUP, member) for member in group.find())


def _leader_row(leader: Leader) -> ProcessRow | None:
    """Under its number here, which is another than its own where it was named in a child pid namespace."""
    number = number_here(leader.identity, leader.pidfd)
    row = read_process(number) if number else None
    if row is None or row.start_ticks == leader.identity.start_ticks:
        return row
    try:  # its start was read in another time namespace
        inode = ProcessIdentity.of(number).pidfs_inode
    except SpurprocError:
        return None
    return row if inode is not None and inode == leader.identity.pidfs_inode else None


def _merged(ways: dict[ProcessRow, set[Way]]) -> list[Member]:
    """One member a process, of its latest reading: a state may have changed between two."""
    merged: dict[tuple[int, int], set[Way]] = defaultdict(set)
    for row, found in ways.items():
        merged[row.pid, row.start_ticks] |= found
    latest = {(row.pid, row.start_ticks): row for row in ways}
    return [Member(row=row, ways=frozenset(merged[key])) for key, row in latest.items()]


def _marked(member: Member, held: frozenset[int] | None) -> Member:
    """With its escape from the cgroup, if it has: it lives still, so it was there to be listed in the second reading."""
    if held is None or member.row.ended or member.row.pid in held:
        return member
    now = read_process(member.row.pid)
    escaped = now is not None and same_process(member.row, now) and not now.ended
    return replace(member, escape=Escape.CGROUP) if escaped else member


def ordered(members: list[Member]) -> list[Member]:
    """As the tree is drawn: the leader first, parents before their children, the older before the younger; with depths.

    Who has no parent among them, and is not the leader, is marked as re-parented.
    """
    by_age = sorted(members, key=lambda member: member.row.start_ticks)
    by_pid = {member.row.pid: member for member in by_age}  # of two with one number, the younger has it now
    children: defaultdict[int, list[Member]] = defaultdict(list)
    roots: list[Member] = []
    for member in by_pid.values():
        parent = by_pid.get(member.row.parent_pid)
        if parent is not None and parent is not member and parent.row.start_ticks <= member.row.start_ticks:
            children[parent.row.pid].append(member)
        else:
            roots.append(member)
    drawn = list(_descend(roots, children))
    ring = by_pid.keys() - {member.row.pid for member in drawn}  # a torn walk: each is the parent of the other
    return drawn + [replace(by_pid[pid], escape=by_pid[pid].escape or Escape.PARENT) for pid in sorted(ring)]


def _age(member: Member) -> tuple[bool, int, int]:
    return Way.LEADER not in member.ways, member.row.start_ticks, member.row.pid


def _descend(roots: list[Member], children: dict[int, list[Member]]) -> Iterator[Member]:
    pending = [(root, 0) for root in sorted(roots, key=_age, reverse=True)]
    while pending:
        member, depth = pending.pop()
        orphan = depth == 0 and Way.LEADER not in member.ways
        yield replace(member, depth=depth, escape=member.escape or (Escape.PARENT if orphan else None))
        pending.extend((child, depth + 1) for child in sorted(children.get(member.row.pid, ()), key=_age, reverse=True))
