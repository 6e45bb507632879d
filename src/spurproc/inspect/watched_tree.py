"""What becomes of a tree: its members, kept by the kernel's events, and what to tell of each event.

The events name processes by number alone, so a number means whom the events before it made of it: it is a member's from its fork,
or from the walk with which the watch began, to its last thread's exit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spurproc.core.tree.process_walk import ProcessRow, read_process
from spurproc.inspect.happening import Happening, lost, plain, wait_status_fields
from spurproc.inspect.proc_events import EventKind, Lost, ProcEvent
from spurproc.inspect.process_facts import member_name
from spurproc.inspect.tree_members import Member

__all__ = ["WatchedTree"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_NEAR_TICKS = 3
_ENDED_KEPT = 1024


@dataclass(slots=True, kw_only=True)
class _Process:
    """A member. Of one that was seen to be forked, `start_ticks` is known as far as the time of its fork tells, until read."""

    pid: int
    start_ticks: int
    exact: bool
    name: str | None
    threads: set[int]
    main_status: int | None = None

    @classmethod
    def of(cls, row: ProcessRow) -> _Process:
        return cls(pid=row.pid, start_ticks=row.start_ticks, exact=True, name=member_name(row), threads=_threads(row.pid))

    def is_at(self, row: ProcessRow | None) -> bool:
        """Whether that is a reading of it."""
        if row is None or row.pid != self.pid:
            return False
        return row.start_ticks == self.start_ticks if self.exact else _near(row.start_ticks, self.start_ticks)

    def read_name(self) -> str | None:
        """Its name now; None when it has gone."""
        row = read_process(self.pid)
        if row is None or not self.is_at(row):
            return None
        self.start_ticks, self.exact = row.start_ticks, True
        return member_name(row)


class WatchedTree:
    """The members of one tree, from `begin` on."""

    def __init__(self, clock_offset_ns: int, belongs: Callable[[int], bool]) -> None:
        """`clock_offset_ns`: CLOCK_BOOTTIME, by which start ticks count, less the events' clock.

        `belongs`: whether the tree's cgroup has the process of that number.
        """
        self._offset_ns = clock_offset_ns
        self._belongs = belongs
        self._known: dict[int, _Process] = {}
        self._ended: dict[int, _Process] = {}
        self._expected: dict[int, ProcessRow] = {}
        self._outer_parents: set[int] = set()
        self._now_ns = 0

    @property
    def empty(self) -> bool:
        """Whether every member that is known has ended."""
        return not self._known

    def begin(self, members: Iterable[Member], since: Sequence[ProcEvent | Lost], at_ns: int) -> Iterator[Happening]:
        """From a walk that was made after the watch began, and the events `since` then until after the walk.

        Whose fork is among them was no member before it, whatever the walk saw under that number.
        """
        self._now_ns = at_ns
        born = {event.pid for event in since if isinstance(event, ProcEvent) and event.kind is EventKind.FORK}
        rows = [member.row for member in members if not member.row.ended]
        self._expected = {row.pid: row for row in rows if row.pid in born}
        self._outer_parents = {row.parent_pid for row in rows}
        for row in rows:
            if row.pid not in born:
                yield self._add(row, "member")
        for event in since:
            yield from self.apply(event)

    def apply(self, event: ProcEvent | Lost) -> Iterator[Happening]:
        """What is to be told of the next event: nothing, where it is none of the tree's."""
        if isinstance(event, Lost):
            yield lost(event, self._now_ns)
            return
        self._now_ns = event.at_ns
        process = self._known.get(event.pid)
        if event.kind is EventKind.FORK:
            yield from self._thread(event, process) if event.thread != event.pid else self._fork(event, process)
        elif process is not None:
            yield from self._exit(event, process) if event.kind is EventKind.EXIT else self._told(event, process)

    def gone(self) -> list[int]:
        """The members whom /proc shows no more. Their exits were told before that: they are to be read now, or are lost."""
        return [pid for pid, process in self._known.items() if not _lives(process)]

    def miss(self, pids: Iterable[int]) -> Iterator[Happening]:
        """Of those who were `gone`, the ones of whom no exit was told since."""
        for pid in pids:
            if pid in self._known and not _lives(self._known[pid]):
                yield self._missed(self._known[pid])

    def check(self, members: Iterable[Member]) -> Iterator[Happening]:
        """Compare with a new walk, after all was read: events were lost, or the tree is to be called empty."""
        yield from self.miss(self.gone())
        for process in self._known.values():
            process.threads = _threads(process.pid)
        for row in (member.row for member in members if not member.row.ended):
            # The kernel tells of an exit a moment before /proc shows it.
            ending = row.pid in self._ended and self._ended[row.pid].is_at(row)
            if row.pid not in self._known and not ending:
                yield self._add(row, "found")

    def _add(self, row: ProcessRow, event: str) -> Happening:
        process = self._known[row.pid] = _Process.of(row)
        fields = {"parent_pid": row.parent_pid, "name": process.name}
        return Happening(at_ns=self._now_ns, event=event, pid=row.pid, text=process.name or "-", fields=fields)

    def _missed(self, process: _Process) -> Happening:
        self._end(process)
        text = "it has ended, and its exit did not arrive"
        return Happening(at_ns=self._now_ns, event="missed", pid=process.pid, text=text, fields={"name": process.name})

    def _end(self, process: _Process) -> None:
        del self._known[process.pid]
        self._ended[process.pid] = process
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def _thread(self, event: ProcEvent, process: _Process | None) -> Iterator[Happening]:
        if process is not None:
            process.threads.add(event.thread)
        return iter(())

    def _fork(self, event: ProcEvent, process: _Process | None) -> Iterator[Happening]:
        ticks = self._ticks(event)
        if process is not None:
            if _near(process.start_ticks, ticks):
                return  # a walk has found it before its fork was read
            yield self._missed(process)
        self._ended.pop(event.pid, None)
        parent = self._known.get(event.parent)
        if parent is None and not self._is_ours(event):
            return
        name = None if parent is None else parent.name
        self._known[event.pid] = _Process(pid=event.pid, start_ticks=ticks, exact=False, name=name, threads={event.pid})
        text = f"by {event.parent}" + ("" if name is None else f" {name}")
        fields = {"parent_pid": event.parent, "name": name}
        yield Happening(at_ns=event.at_ns, event="fork", pid=event.pid, text=text, fields=fields)

    def _ticks(self, event: ProcEvent) -> int:
        return (event.at_ns + self._offset_ns) // _TICK_NS

    def _is_ours(self, event: ProcEvent) -> bool:
        """A child whose parent is none of ours: the walk found it, or a member made it its sibling (CLONE_PARENT, clone(2))."""
        row = self._expected.pop(event.pid, None)
        if row is not None and _near(row.start_ticks, self._ticks(event)):
            return True
        return event.parent in self._outer_parents and self._belongs(event.pid)

    def _exit(self, event: ProcEvent, process: _Process) -> Iterator[Happening]:
        """Of a process, when its last thread ends."""
        status = event.numbers[0]
        process.threads.discard(event.thread)
        if event.thread == process.pid:
            process.main_status = status
        if not process.threads:
            self._end(process)
            fields = {"name": process.name, **wait_status_fields(process.main_status, status)}
            yield Happening(at_ns=event.at_ns, event="exit", pid=process.pid, text=fields["text"], fields=fields)

    def _told(self, event: ProcEvent, process: _Process) -> Iterator[Happening]:
        fields: dict[str, Any] = {} if event.thread == event.pid else {"thread": event.thread}
        match event.kind:
            case EventKind.EXEC:
                process.threads, process.main_status = {process.pid}, None
                process.name = process.read_name()
                text, told = process.name or "-", {"name": process.name}
            case EventKind.NAME:
                text = os.fsdecode(event.name)
                told = {"name": text}
                process.name = process.name if fields else text
            case _:
                text, told = plain(event)
        if fields:
            text = f"{text} (thread {event.thread})"
        yield Happening(at_ns=event.at_ns, event=event.kind.value, pid=event.pid, text=text, fields=told | fields)


def _near(ticks: int, others: int) -> bool:
    """Whether both can be of one start: the kernel tells of a fork a moment after it has noted the start."""
    return abs(ticks - others) <= _NEAR_TICKS


def _lives(process: _Process) -> bool:
    row = read_process(process.pid)
    return row is not None and not row.ended and process.is_at(row)


def _threads(pid: int) -> set[int]:
    """Those that have not ended; the main one stays listed as long as any other runs."""
    try:
        threads = {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:  # it is ending
        return {pid}
    if len(threads) > 1 and _is_zombie(pid):
        threads.discard(pid)
    return threads or {pid}


def _is_zombie(pid: int) -> bool:
    row = read_process(pid)
    return row is not None and row.state == "Z"
