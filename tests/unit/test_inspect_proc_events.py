"""Process events as the kernel writes them, and a tree that is kept by them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import pytest

from spurproc.core.tree.process_walk import ProcessRow
from spurproc.inspect.happening import wait_status_fields
from spurproc.inspect.proc_events import Answer, EventKind, EventReader, Lost, ProcEvent, request
from spurproc.inspect.tree_members import Member, Way
from spurproc.inspect.watched_tree import WatchedTree

_TICK_NS = 10_000_000
P, Q, R = 2_000_000_001, 2_000_000_002, 2_000_000_003  # above pid_max: nobody's numbers


def datagram(what: int, data: bytes, *, number: int = 0, cpu: int = 0, ack: int = 0, at_ns: int = 5) -> bytes:
    """nlmsghdr, cn_msg and proc_event, as linux/cn_proc.h has them."""
    event = struct.pack("=IIQ", what, cpu, at_ns) + data.ljust(24, b"\0")
    message = struct.pack("=IIIIHH", 1, 1, number, ack, len(event), 0) + event
    return struct.pack("=IHHII", 16 + len(message), 3, 0, 0, 0) + message


def numbers(*values: int) -> bytes:
    return struct.pack(f"={len(values)}I", *values)


@pytest.mark.parametrize(
    ("what", "data", "event"),
    [
        (0x1, numbers(1, 2, 3, 4), ProcEvent(EventKind.FORK, 5, 4, 3, 2)),
        (0x2, numbers(3, 4), ProcEvent(EventKind.EXEC, 5, 4, 3)),
        (0x80000000, numbers(3, 4, 768, 17, 1, 2), ProcEvent(EventKind.EXIT, 5, 4, 3, numbers=(768,))),
        (0x4, numbers(3, 4, 1000, 0), ProcEvent(EventKind.UID, 5, 4, 3, numbers=(1000, 0))),
        (0x40, numbers(3, 4, 100, 4294967295), ProcEvent(EventKind.GID, 5, 4, 3, numbers=(100, 4294967295))),
        (0x80, numbers(3, 4), ProcEvent(EventKind.SESSION, 5, 4, 3)),
        (0x100, numbers(3, 4, 8, 9), ProcEvent(EventKind.TRACE, 5, 4, 3, numbers=(9,))),
        (0x200, numbers(3, 4) + b"a\xff\x1b\0rest", ProcEvent(EventKind.NAME, 5, 4, 3, name=b"a\xff\x1b")),
        (0x40000000, numbers(3, 4, 1, 2), ProcEvent(EventKind.COREDUMP, 5, 4, 3)),
        (0x0, numbers(1), Answer(9, 1, 5)),
    ],
)
def test_events_are_decoded(what: int, data: bytes, event: ProcEvent | Answer) -> None:
    assert list(EventReader().read(datagram(what, data, ack=9))) == [event]


def test_what_is_no_event_says_nothing() -> None:
    reader = EventReader()
    assert list(reader.read(b"")) == list(reader.read(datagram(0x1, b"")[:50])) == []
    assert list(reader.read(datagram(0x20, numbers(1, 1)))) == []


def test_gaps_are_counted_for_each_cpu() -> None:
    """One number a CPU, which goes around at 2^32; the first one met is no gap."""
    reader = EventReader()

    def read(number: int, cpu: int) -> list[Lost]:
        return [event for event in reader.read(datagram(0x2, numbers(1, 1), number=number, cpu=cpu)) if isinstance(event, Lost)]

    assert read(70, 0) == read(5, 1) == read(71, 0) == read(6, 1) == []
    assert read(74, 0) == [Lost(2)]
    assert read(75, 0) == []
    assert read(7, 1) == []
    assert read(3, 1) == [Lost(None)]
    assert read(2**32 - 1, 2) == read(0, 2) == []
    assert read(2, 2) == [Lost(1)]


def test_a_request_is_as_the_kernel_takes_it() -> None:
    assert request(1, 77) == struct.pack("=IHHII", 40, 3, 0, 0, 0) + struct.pack("=IIIIHHI", 1, 1, 0, 77, 4, 0, 1)


@pytest.mark.parametrize(
    ("main", "last", "told"),
    [
        (0x300, 0x300, {"wait_status": 0x300, "text": "exited 3", "kind": "exited", "code": 3}),
        (9, 9, {"wait_status": 9, "text": "killed by SIGKILL", "kind": "signaled", "signal": 9, "core_dumped": False}),
        (0, 0x8B, {"wait_status": 0x8B, "text": "killed by SIGSEGV, core dumped", "signal": 11, "core_dumped": True}),
        (0, 0x700, {"wait_status": None}),
        (None, 0x700, {"wait_status": None}),
        (0x1F7F, 0x1F7F, {"wait_status": 0x1F7F, "text": "cannot read the wait status 8063: not the end of a process"}),
    ],
)
def test_an_end_is_told_as_far_as_it_is_known(main: int | None, last: int, told: dict[str, Any]) -> None:
    fields = wait_status_fields(main, last)
    assert fields | told == fields


def member(pid: int, parent: int = 1, start: int = 100) -> Member:
    return Member(row=ProcessRow(pid, parent, 0, 0, "S", start, False), ways=frozenset([Way.DESCENDANT]))


def fork(pid: int, parent: int, at_tick: int = 100, thread: int = 0) -> ProcEvent:
    return ProcEvent(EventKind.FORK, at_tick * _TICK_NS, pid, thread or pid, parent)


def ended(pid: int, status: int = 0, thread: int = 0) -> ProcEvent:
    return ProcEvent(EventKind.EXIT, 0, pid, thread or pid, numbers=(status,))


class Kept:
    """A tree whose events are given by the test."""

    def __init__(self, *members: Member, since: Iterable[ProcEvent | Lost] = (), cgroup: Iterable[int] = ()) -> None:
        inside = set(cgroup)
        self.tree = WatchedTree(0, inside.__contains__)
        self.begun = [(told.event, told.pid) for told in self.tree.begin(members, list(since), 0)]

    def tell(self, *events: ProcEvent | Lost) -> list[tuple[str, int | None]]:
        """What is told of each, and of whom."""
        return [(told.event, told.pid) for event in events for told in self.tree.apply(event)]


def test_children_of_members_are_members() -> None:
    kept = Kept(member(P))
    assert kept.tell(fork(Q, P), fork(R, 7), ended(R), fork(R, Q), ended(Q), ended(R)) == [
        ("fork", Q),
        ("fork", R),
        ("exit", Q),
        ("exit", R),
    ]
    assert not kept.tree.empty
    assert kept.tell(ended(P)) == [("exit", P)]
    assert kept.tree.empty


def test_a_number_given_again_is_nobody_of_the_tree() -> None:
    kept = Kept(member(P))
    assert kept.tell(fork(Q, P), ended(Q), fork(Q, 7, 900), ended(Q)) == [("fork", Q), ("exit", Q)]


def test_who_was_forked_during_the_walk_is_told_once() -> None:
    """In the walk and in the events both; a stranger who had the number before is told nothing of."""
    kept = Kept(member(P, start=90), member(Q, P), since=[ended(Q, 9), fork(Q, P), ended(Q, 0)])
    assert kept.begun == [("member", P), ("fork", Q), ("exit", Q)]


def test_whom_the_walk_found_is_one_though_his_parent_was_gone_by_then() -> None:
    """The parent ended before the walk came to it; of a stranger with that number the start tells."""
    assert Kept(member(Q, 1, start=100), since=[fork(Q, P, 101)]).begun == [("fork", Q)]
    assert Kept(member(Q, 1, start=100), since=[ended(Q), fork(Q, P, 900)]).begun == []


def test_a_member_that_ended_during_the_walk() -> None:
    assert Kept(member(P), since=[ended(P, 3)]).begun == [("member", P), ("exit", P)]


def test_a_sibling_is_a_member_if_the_cgroup_has_it() -> None:
    """CLONE_PARENT; a fork of the outer parent that is not in the cgroup is a stranger."""
    kept = Kept(member(P, parent=7), cgroup=[Q, R])
    assert kept.tell(fork(Q, 7), fork(P + 9, 7), fork(R, 8)) == [("fork", Q)]


def test_a_process_ends_with_its_last_thread() -> None:
    kept = Kept(member(P))
    assert kept.tell(fork(P, 1, thread=R), ended(P), ended(P, 0, thread=R)) == [("exit", P)]


def test_an_exit_that_was_lost_shows_when_the_number_is_given_again() -> None:
    kept = Kept(member(P))
    assert kept.tell(fork(P, 7, 500)) == [("missed", P)]
    assert kept.tree.empty


def test_lost_events_are_told_and_the_rest_is_looked_for() -> None:
    """Nobody has these numbers in /proc: whoever is known has ended, and whom a walk finds is new."""
    kept = Kept(member(P))
    assert kept.tell(Lost(3)) == [("lost", None)]
    assert [(told.event, told.pid) for told in kept.tree.check([member(Q)])] == [("missed", P), ("found", Q)]


def test_who_has_told_of_its_exit_is_not_found_again() -> None:
    """The kernel tells of an exit a moment before /proc shows it; the same number with another start is somebody else."""
    kept = Kept(member(P))
    kept.tell(ended(P))
    assert list(kept.tree.check([member(P)])) == []
    assert [told.event for told in kept.tree.check([member(P, start=900)])] == ["found"]
