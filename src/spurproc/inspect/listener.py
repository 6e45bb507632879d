"""The one who listens to process events, and stops: a process of its own, so that it stops however the watcher ends.

The kernel counts its listeners. One that dies without PROC_CN_MCAST_IGNORE stays counted until the next boot (seen on 6.18), and
from then on every fork, exec and exit of the host makes a message for nobody. So the two requests are made by a child that does
nothing else, that no signal reaches but SIGKILL and SIGSTOP, and that ends when nobody holds its lifeline any more: the watcher
returned, raised, was interrupted or was killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct

from spurproc.core.interrupts import SignalsHeld
from spurproc.errors import from_errno

__all__ = ["Listener"]

_ASKING = b"l"
_STOPPED = b"i"
_MOST_DRAINED = 100_000
_ANSWER = struct.Struct("=i")


class Listener:
    """Listens from its making until `stop`. Borrows `sock`, whose open file the child shares."""

    def __init__(self, sock: socket.socket, listen: bytes, ignore: bytes) -> None:
        """Returns when the kernel has taken `listen`. Raises SystemCallError when it refuses it."""
        self._sock, self._ignore = sock, ignore
        try:
            pid, self._told, self._lifeline = _start(sock, (listen, ignore))
        except OSError as error:
            raise from_errno(error.errno or errno.EIO, "start", "the listener to process events") from error
        self.pid = pid
        asking, answer = _read(self._told, 1), _read(self._told, _ANSWER.size)
        refused = _ANSWER.unpack(answer)[0] if answer else errno.ECHILD
        self._may_count = asking == _ASKING and (not answer or refused == 0)
        if refused:
            self.stop()
            raise from_errno(refused, "ask for", "process events")

    def fileno(self) -> int:
        """Readable when the child has ended before its time."""
        return self._told

    def stop(self) -> None:
        """Have it say that we do not listen any more, and reap it. May be called twice. Blocks for about a millisecond."""
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline < 0:
            return
        os.close(lifeline)
        stopped = _read(self._told, 1) == _STOPPED
        with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored: the kernel has reaped it
            os.waitpid(self.pid, 0)
        os.close(self._told)
        # Somebody killed it: its request is ours to take back, if it made one. One taken back too often is another listener's.
        if self._may_count and not stopped:
            with contextlib.suppress(OSError):
                self._sock.send(self._ignore)


def _read(fd: int, length: int) -> bytes:
    received = b""
    while len(received) < length and (part := os.read(fd, length - len(received))):
        received += part
    return received


def _start(sock: socket.socket, requests: tuple[bytes, bytes]) -> tuple[int, int, int]:
    """Fork the child; its pid, what it tells, and its lifeline. Leaves nothing open where that fails."""
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as childs:
        told = _pipe(ours, childs)
        lifeline = _pipe(childs, ours)
        pid = _fork(sock, requests, told[1], lifeline[0])
        ours.pop_all()
    return pid, told[0], lifeline[1]


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[int, int]:
    """Its ends, of which each is closed with its side."""
    ends = os.pipe()
    for side, end in zip((reads, writes), ends, strict=True):
        side.callback(os.close, end)
    return ends


def _fork(sock: socket.socket, requests: tuple[bytes, bytes], told: int, lifeline: int) -> int:
    held = SignalsHeld()
    try:
        pid = os.fork()
        if pid == 0:
            _listen(sock, requests, told, lifeline)
    finally:
        held.release()
    return pid


def _listen(sock: socket.socket, requests: tuple[bytes, bytes], told: int, lifeline: int) -> None:
    """The child: all signals are blocked, and stay so. Never returns."""
    listen, ignore = requests
    try:
        os.setsid()  # a signal to the group of the watcher is not meant for it
        _close_all_but(sock.fileno(), told, lifeline)
        _drain(sock)
        _tell(told, _ASKING)
        refused = _send(sock, listen)
        _tell(told, _ANSWER.pack(refused))
        if refused == 0:
            _read(lifeline, 1)
            _send(sock, ignore)
            _tell(told, _STOPPED)
    finally:
        os._exit(0)


def _tell(told: int, message: bytes) -> None:
    with contextlib.suppress(OSError):  # the watcher has gone
        os.write(told, message)


def _drain(sock: socket.socket) -> None:
    """Drop what others' listening has brought so far, or the answer may find no room."""
    for _ in range(_MOST_DRAINED):
        try:
            sock.recv(1)
        except BlockingIOError:
            return
        except OSError:  # some were lost already
            continue


def _send(sock: socket.socket, message: bytes) -> int:
    try:
        sock.send(message)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _close_all_but(*kept: int) -> None:
    """Above all the writing end of the lifeline, and an output that somebody reads to its end.

    What is open is asked for: the limit may have been lowered below it, or be a billion.
    """
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd not in kept:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(fd)
