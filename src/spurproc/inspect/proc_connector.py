"""The proc connector (netlink(7), NETLINK_CONNECTOR): the events of all processes of the host, from now on.

A plain socket with pyroute2's messages. Its own ProcEventSocket would wait for ever for an answer where none comes (in a pid or
user namespace), and does nothing more after the first lost event, not even ask the kernel to stop.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from pyroute2.netlink import NETLINK_CONNECTOR
from pyroute2.netlink.connector import cn_proc

from spurproc.errors import SpurprocError, Unsupported, from_errno
from spurproc.inspect.listener import Listener
from spurproc.inspect.proc_events import Answer, EventReader, Lost, ProcEvent, request

__all__ = ["ProcConnector", "events_offset_ns"]

_SO_RCVBUFFORCE = 33  # socket(7)
_BUFFER_BYTES = 32 * 1024 * 1024
_MOST_AT_ONCE = 1024
_DATAGRAM_BYTES = 4096
_ABSENT = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT)  # socket(2), of a protocol that nobody registered
_RIGHTS = "it needs CAP_NET_ADMIN before Linux 6.6"
_INITIAL = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}  # include/linux/proc_ns.h


class ProcConnector:
    """Listens from its making until `close`. Owns a socket and a child: use it as a context manager.

    A child process makes the requests, so that the kernel is told to stop however this process ends: see `listener`.
    """

    def __init__(self) -> None:
        """Raises Unsupported, which says what is missing: the kernel option, rights, or the initial namespaces; SystemCallError.

        `began_ns`: when it began, by the clock of the events.
        """
        self._events = EventReader()
        self._socket = _open_socket()
        number = secrets.randbelow(2**30)
        try:
            listen, ignore = request(cn_proc.PROC_CN_MCAST_LISTEN, number), request(cn_proc.PROC_CN_MCAST_IGNORE, number + 1)
            self._listener = _start_listener(self._socket, listen, ignore)
        except BaseException:
            self._socket.close()
            raise
        try:
            self.began_ns = 0
            self._early = list(self._await_answer(number + 1))
        except BaseException:
            self.close()
            raise

    @property
    def listener_pid(self) -> int:
        """The child that listens."""
        return self._listener.pid

    def fileno(self) -> int:
        """Readable when there is something to `read`."""
        return self._socket.fileno()

    def read(self) -> list[ProcEvent | Lost]:
        """What has come since, a thousand at most; does not block."""
        early, self._early = self._early, []
        return [*early, *(event for event in self._read() if not isinstance(event, Answer))]

    def _read(self) -> Iterator[ProcEvent | Lost | Answer]:
        for _ in range(_MOST_AT_ONCE):
            try:
                datagram, sender = self._socket.recvfrom(_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                yield Lost(None)
                continue
            if sender[0] == 0:  # the kernel; root can send as well
                yield from self._events.read(datagram)

    def _await_answer(self, number: int) -> Iterator[ProcEvent | Lost]:
        """What came before and behind it. The kernel answers before the request's send(2) returns, or never."""
        for event in self._read():
            if not isinstance(event, Answer):
                yield event
            elif event.number == number:
                if event.errno:
                    raise _unsupported(os.strerror(event.errno), _RIGHTS)
                self.began_ns = event.at_ns
        if not self.began_ns:
            raise _unsupported("the kernel does not answer", _why_unanswered())

    def close(self) -> None:
        """Stop listening and let go of everything. May be called twice."""
        self._listener.stop()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def events_offset_ns() -> int:
    """What CLOCK_BOOTTIME is ahead of the clock of the events, which is CLOCK_MONOTONIC of the initial time namespace.

    Read from the clocks and not from the age of an answer, which is older than it seems where its reader had to wait for a CPU.
    Source: time_namespaces(7), /proc/PID/timens_offsets.
    """
    ahead_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as file:
            offsets = {clock: int(seconds) * 1_000_000_000 + int(rest) for clock, seconds, rest in map(str.split, file)}
    except FileNotFoundError:  # a kernel without time namespaces
        offsets = {}
    return ahead_ns + offsets.get("monotonic", 0)


def _open_socket() -> socket.socket:
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, NETLINK_CONNECTOR)
    except OSError as error:
        raise _refused(error, _ABSENT, "the kernel needs CONFIG_CONNECTOR and CONFIG_PROC_EVENTS") from error
    try:
        _enlarge_buffer(made)
        made.bind((0, cn_proc.CN_IDX_PROC))
    except OSError as error:
        made.close()
        raise _refused(error, (errno.EPERM, errno.EACCES), _RIGHTS) from error
    return made


def _refused(error: OSError, lacking: tuple[int, ...], need: str) -> SpurprocError:
    """Unsupported where the errno says that `need` is lacking; any other, such as EMFILE, tells nothing about this host."""
    if error.errno in lacking:
        return _unsupported(os.strerror(error.errno), need)
    return from_errno(error.errno or errno.EIO, "open", "the socket of process events")


def _enlarge_buffer(made: socket.socket) -> None:
    try:
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)  # as much as net.core.rmem_max lets us have


def _start_listener(sock: socket.socket, listen: bytes, ignore: bytes) -> Listener:
    try:
        return Listener(sock, listen, ignore)
    except OSError as error:
        if error.errno != errno.ECONNREFUSED:
            raise
        raise _unsupported(os.strerror(error.errno), "it needs the initial network namespace") from error


def _why_unanswered() -> str:
    for kind, initial in _INITIAL.items():
        if os.stat(f"/proc/self/ns/{kind}").st_ino != initial:
            return f"it needs the initial {kind} namespace"
    return "the kernel needs CONFIG_PROC_EVENTS, or another program has stopped listening twice"


def _unsupported(reason: str, need: str) -> Unsupported:
    return Unsupported(f"cannot watch process events: {reason}: {need}")
