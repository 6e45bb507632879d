"""The pipes between `run` and a job: what it is fed, and what it says."""

from __future__ import annotations

import os
import select
from contextlib import suppress

__all__ = ["Capture"]

_READ_BYTES = 1 << 18
_WRITE_BYTES = 1 << 16
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


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
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)  # our end alone: the job's is another open file description
        self._theirs.append(theirs)
        self._reads[ours] = gathered = bytearray()
        return theirs, gathered

    def open_input(self, content: bytes) -> int:
        """A pipe's end from which the job reads `content`, then end of file; borrowed."""
        theirs, ours = os.pipe2(os.O_CLOEXEC)
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
        """Take what is left in the pipes. Does not block; what others still hold open is left to them."""
        for fd in list(self._reads):
            while self._read(fd):
                continue

    def _read(self, fd: int) -> bool:
        """Whether there may be more."""
        try:
            content = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if content:
            self._reads[fd] += content
            return True
        del self._reads[fd]
        os.close(fd)
        return False

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
