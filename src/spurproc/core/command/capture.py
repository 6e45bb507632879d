"""The pipes between `run` and a job: what it is fed, and what it says."""

from __future__ import annotations

import errno
import fcntl
import os
import select
from contextlib import suppress

from spurproc.errors import from_errno

__all__ = ["Capture"]

_READ_BYTES = 1 << 18
_WRITE_BYTES = 1 << 16
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def _pipe() -> tuple[int, int]:
    try:
        return os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "make", "a pipe to the job") from error


class Capture:
    """Pipes of one run. Owns all ends: `close()` it, and `close_theirs()` once the job has its copies.

    Output is kept in memory, all of it. End of file is never waited for: a grandchild may hold a pipe for ever.
    """

    def __init__(self) -> None:
        self._theirs: list[int] = []
        self._reads: dict[int, bytearray] = {}
        self._write_fd = -1
        self._rest = memoryview(b"")

    def open_output(self) -> tuple[int, bytearray]:
        """A pipe's end for the job to write to, borrowed; and where it will be gathered."""
        ours, theirs = _pipe()
        os.set_blocking(ours, False)  # our end alone: the job's is another open file description
        self._theirs.append(theirs)
        self._reads[ours] = gathered = bytearray()
        return theirs, gathered

    def open_input(self, content: bytes) -> int:
        """A pipe's end from which the job reads `content`, then end of file; borrowed."""
        theirs, ours = _pipe()
        os.set_blocking(ours, False)
        self._theirs.append(theirs)
        self._write_fd, self._rest = ours, memoryview(content)
        return theirs

    def close_theirs(self) -> None:
        """The job has its own copies now."""
        while self._theirs:
            os.close(self._theirs.pop())

    def entries(self) -> list[tuple[int, int]]:
        """(descriptor, poll events) of what is still open."""
        entries = [(fd, select.POLLIN) for fd in self._reads]
        return entries if self._write_fd < 0 else [*entries, (self._write_fd, select.POLLOUT)]

    def serve(self, ready: list[tuple[int, int]]) -> None:
        """Read and write what poll(2) says can be; descriptors of others are passed over. Does not block."""
        for fd, events in ready:
            if fd in self._reads and events & _READABLE:
                self._read(fd)
            elif fd == self._write_fd:
                self._write()

    def drain(self) -> None:
        """Take what is in the pipes now: one read of all that a pipe can hold. Who outlives the job may write on for ever."""
        for fd in list(self._reads):
            self._read(fd, fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ))

    def _read(self, fd: int, size: int = _READ_BYTES) -> None:
        try:
            content = os.read(fd, size)
        except BlockingIOError:
            return
        if content:
            self._reads[fd] += content
        else:
            del self._reads[fd]
            os.close(fd)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._write_fd, self._rest[:_WRITE_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has read what it wanted
            self._rest = memoryview(b"")
        if not self._rest:
            self._close_write()

    def _close_write(self) -> None:
        fd, self._write_fd = self._write_fd, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Let go of everything; what was gathered stays. May be called twice."""
        self.close_theirs()
        self._close_write()
        while self._reads:
            with suppress(OSError):
                os.close(self._reads.popitem()[0])
