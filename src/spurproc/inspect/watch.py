"""`spurproc-inspect watch`: the forks, execs and exits of a tree, while they happen."""

from __future__ import annotations

import errno
import select
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

from spurproc.command_line.answer import Line
from spurproc.command_line.output import Stream, json_option
from spurproc.core.deadline import deadline_after, has_passed, left_s, poll_ms, shortest_s
from spurproc.core.tree.members import ProcessTree
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.happening import Happening
from spurproc.inspect.proc_connector import ProcConnector, events_offset_ns
from spurproc.inspect.proc_events import Lost, ProcEvent
from spurproc.inspect.target import TARGET, Target
from spurproc.inspect.tree_members import Member, tree_members
from spurproc.inspect.tree_subject import TreeSubject, open_tree
from spurproc.inspect.waiting import SECONDS
from spurproc.inspect.watched_tree import WatchedTree

__all__ = ["command"]

_LOOK_S = 1.0
_MOST_READS = 128
_Events = Sequence[ProcEvent | Lost]


@click.command("watch")
@click.argument("target", type=TARGET)
@click.option("--timeout", "timeout_s", type=SECONDS, metavar="S", help="Seconds to watch at most; until the tree's end without.")
@json_option
def command(target: Target, timeout_s: float | None, as_json: bool) -> int:
    """Tell of each fork, exec and exit of TARGET.

    Exit code 0 when nothing of it is left, 1 if nothing was, 4 after S seconds.
    """
    deadline = deadline_after(timeout_s)
    with open_tree(target) as subject, ProcConnector() as connector:
        return _Watch(subject, connector, deadline, as_json=as_json).run()


class _Watch:
    """One watch. Borrows its parts."""

    def __init__(self, subject: TreeSubject, connector: ProcConnector, deadline: float | None, *, as_json: bool) -> None:
        self._subject, self._connector, self._deadline = subject, connector, deadline
        self._stream, self._as_json = Stream("watch", as_json=as_json), as_json
        self._offset_ns = events_offset_ns()
        self._tree = WatchedTree(self._offset_ns, self._belongs)
        self._lost = False
        self._look_at = time.monotonic() + _LOOK_S
        self._poll = select.poll()
        self._poll.register(connector.fileno(), select.POLLIN)
        if sys.stdout is not None:
            self._poll.register(sys.stdout.fileno(), 0)  # POLLERR: whoever read it has gone

    def run(self) -> ExitCode:
        """Until the tree is empty, or the deadline."""
        # The events since the connector began wait in its socket: what changed during this walk is among them.
        members = self._members()
        since = self._read()
        happenings = list(self._tree.begin(members, since, self._connector.began_ns))
        if not happenings:
            raise AlreadyGone(errno.ESRCH, f"cannot watch {self._subject.name}: nothing of it lives")
        watching = Happening(at_ns=self._connector.began_ns, event="watching", text="from now on", fields=self._subject.fields)
        self._put([watching, *happenings])
        self._after(since)
        is_last = False
        while not self._is_empty():
            if is_last:
                return self._ended("timeout", "the time is over", ExitCode.STILL_RUNNING)
            is_last = has_passed(self._deadline)  # once more, and no oftener: on a busy host there always is something to read
            self._wait(left_s(self._deadline))
            gone = self._gone_if_due()
            events = self._read()
            self._put([happening for event in events for happening in self._tree.apply(event)])
            self._put(self._tree.miss(gone))
            self._after(events)
        return self._ended("empty", "nothing of it is left", ExitCode.HOLDS)

    def _members(self) -> list[Member]:
        tree = self._subject.find()
        return [] if tree is None else tree_members(tree, excluded=[self._connector.listener_pid])

    def _belongs(self, pid: int) -> bool:
        try:
            tree: ProcessTree | None = self._subject.find()
            return tree is not None and tree.cgroup is not None and pid in tree.cgroup.pids()
        except SpurprocError:
            return False

    def _read(self) -> _Events:
        """All that there is: a walk is compared with all that was told before it. Bounded: a storm is told of too, and ends."""
        events: list[ProcEvent | Lost] = []
        for _ in range(_MOST_READS):
            part = self._connector.read()
            events += part
            if not part or has_passed(self._deadline):
                break
        return events

    def _after(self, events: _Events) -> None:
        """Where events were lost, look who is there."""
        if any(isinstance(event, Lost) for event in events):
            self._lost = True
            self._put(self._tree.check(self._members()))

    def _is_empty(self) -> bool:
        """By the events, and then by a look: somebody may have been moved into the cgroup, which no event tells."""
        if self._tree.empty:
            self._put(self._tree.check(self._members()))
        return self._tree.empty

    def _wait(self, left: float | None) -> None:
        """Until there is something to read, or it is time to look, or no time is left.

        Raises BrokenPipeError when nobody reads what we print.
        """
        ready = self._poll.poll(poll_ms(shortest_s(left, _LOOK_S)))
        if any(events & (select.POLLERR | select.POLLHUP) and fd != self._connector.fileno() for fd, events in ready):
            raise BrokenPipeError

    def _gone_if_due(self) -> list[int]:
        """Once a second: no watch may wait for an exit that it cannot be told, whatever the reason."""
        now = time.monotonic()
        if now < self._look_at:
            return []
        self._look_at = now + _LOOK_S
        return self._tree.gone()

    def _ended(self, reason: str, text: str, code: ExitCode) -> ExitCode:
        fields = {"reason": reason, "exit_code": int(code), "events_lost": self._lost}
        text = f"{text}; events were lost on the way" if self._lost else text
        self._put([Happening(at_ns=self._clock_ns(), event="end", text=text, fields=fields)])
        return code

    def _clock_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._offset_ns

    def _put(self, happenings: Iterable[Happening]) -> None:
        if self._as_json:
            for happening in happenings:
                self._stream.put(self._fields(happening))
        elif lines := [Line(self._line(happening)) for happening in happenings]:
            self._stream.put({}, *lines)

    def _at_s(self, happening: Happening) -> float:
        return (happening.at_ns - self._connector.began_ns) / 1e9

    def _fields(self, happening: Happening) -> dict[str, Any]:
        at_s = round(self._at_s(happening), 6)
        return {"event": happening.event, "at_s": at_s, "pid": happening.pid, **happening.fields}

    def _line(self, happening: Happening) -> str:
        pid = "" if happening.pid is None else str(happening.pid)
        return f"{self._at_s(happening):9.3f}  {pid:>7}  {happening.event:<8}  {happening.text}"
