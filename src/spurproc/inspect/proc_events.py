"""What the kernel tells of processes while it happens: forks, execs, ends, new names, users and sessions.

Source: linux/cn_proc.h, drivers/connector/cn_proc.c. The messages are pyroute2's, with two of our own: it drops the error that an
answer carries, and it fails on a name that is not UTF-8.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyroute2.netlink import NLMSG_DONE
from pyroute2.netlink.connector import cn_proc

__all__ = ["Answer", "EventKind", "EventReader", "Lost", "ProcEvent", "request"]

_SHORTEST = 16 + 20 + 16 + 16  # nlmsghdr, cn_msg, the fixed part of proc_event, the shortest event that we read
_COUNTED_TO = 2**32


class EventKind(enum.Enum):
    """What happened."""

    FORK = "fork"
    EXEC = "exec"
    EXIT = "exit"
    UID = "uid"
    GID = "gid"
    SESSION = "session"
    TRACE = "trace"
    NAME = "name"
    COREDUMP = "coredump"


_KINDS = {
    cn_proc.PROC_EVENT_FORK: EventKind.FORK,
    cn_proc.PROC_EVENT_EXEC: EventKind.EXEC,
    cn_proc.PROC_EVENT_EXIT: EventKind.EXIT,
    cn_proc.PROC_EVENT_UID: EventKind.UID,
    cn_proc.PROC_EVENT_GID: EventKind.GID,
    cn_proc.PROC_EVENT_SID: EventKind.SESSION,
    cn_proc.PROC_EVENT_PTRACE: EventKind.TRACE,
    cn_proc.PROC_EVENT_COMM: EventKind.NAME,
    cn_proc.PROC_EVENT_COREDUMP: EventKind.COREDUMP,
}

_NUMBERS_OF = {
    EventKind.EXIT: ("exit_code",),
    EventKind.UID: ("ruid", "euid"),
    EventKind.GID: ("rgid", "egid"),
    EventKind.TRACE: ("tracer_tgid",),
}


class ProcEvent(NamedTuple):
    """One event; all numbers are of the initial pid namespace.

    `at_ns` is CLOCK_MONOTONIC of the initial time namespace. `thread` is the thread that it happened to, `pid` its process; of a
    FORK both are the new one's, and `parent` is its parent then. `numbers`: of an EXIT the raw wait status of that thread, of UID
    and GID the real and the effective one, of a TRACE the tracer's pid or 0.
    """

    kind: EventKind
    at_ns: int
    pid: int
    thread: int
    parent: int = 0
    numbers: tuple[int, ...] = ()
    name: bytes = b""


class Lost(NamedTuple):
    """Events that did not reach us; `how_many` is None where nobody knows."""

    how_many: int | None


class Answer(NamedTuple):
    """The kernel's answer to somebody's request, perhaps ours: `number` is one more than the request's."""

    number: int
    errno: int
    at_ns: int


class _AnswerMessage(cn_proc.proc_event_base):  # type: ignore[misc]  # pyroute2 has no types
    fields = (*cn_proc.proc_event_base.fields, ("errno", "I"))


class _NameMessage(cn_proc.proc_event_base):  # type: ignore[misc]  # pyroute2 has no types
    fields = (*cn_proc.proc_event_base.fields, ("process_pid", "I"), ("process_tgid", "I"), ("comm", "16s"))


def request(action: int, number: int = 0) -> bytes:
    """PROC_CN_MCAST_LISTEN or _IGNORE as a message; `number` comes back, plus one, in the answer."""
    message = cn_proc.proc_event_control()
    message["action"], message["ack"], message["len"] = action, number, 4
    message["idx"], message["val"] = cn_proc.CN_IDX_PROC, cn_proc.CN_VAL_PROC
    message["header"]["type"] = NLMSG_DONE
    message.encode()
    return bytes(message.data)


class EventReader:
    """Reads datagrams in the order in which they came, and notices what is missing: each CPU numbers its events."""

    def __init__(self) -> None:
        self._marshal = cn_proc.ProcEventMarshal()
        self._marshal.default_message_class = cn_proc.proc_event_base  # of an event that a later kernel may have
        self._marshal.msg_map[cn_proc.PROC_EVENT_NONE] = _AnswerMessage
        self._marshal.msg_map[cn_proc.PROC_EVENT_COMM] = _NameMessage
        self._next: dict[int, int] = {}

    def read(self, datagram: bytes) -> Iterator[ProcEvent | Lost | Answer]:
        """What it says; nothing for one that is too short, or an event that is not known."""
        if len(datagram) < _SHORTEST:
            return
        for message in self._marshal.parse(datagram):
            if (lost := self._missing(message["cpu"], message["seq"])) is not None:
                yield lost
            if message["what"] == cn_proc.PROC_EVENT_NONE:
                yield Answer(message["ack"], message["errno"], message["timestamp_ns"])
            elif message["what"] in _KINDS:
                yield _event(_KINDS[message["what"]], message)

    def _missing(self, cpu: int, number: int) -> Lost | None:
        """The first number of a CPU is the start; one that goes back means that we do not know what we have."""
        expected = self._next.get(cpu, number)
        self._next[cpu] = (number + 1) % _COUNTED_TO
        gap = (number - expected) % _COUNTED_TO
        if gap == 0:
            return None
        return Lost(gap if gap < _COUNTED_TO // 2 else None)


def _event(kind: EventKind, message: Any) -> ProcEvent:
    at_ns = message["timestamp_ns"]
    if kind is EventKind.FORK:
        return ProcEvent(kind, at_ns, message["child_tgid"], message["child_pid"], message["parent_tgid"])
    event = ProcEvent(kind, at_ns, message["process_tgid"], message["process_pid"])
    if kind is EventKind.NAME:
        return event._replace(name=message["comm"].split(b"\0", 1)[0])
    return event._replace(numbers=tuple(message[name] for name in _NUMBERS_OF.get(kind, ())))
