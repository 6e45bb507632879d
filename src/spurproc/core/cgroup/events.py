"""`cgroup.events` of one cgroup: whether it is populated and frozen, now or at a deadline.

Source: admin-guide/cgroup-v2.rst, "cgroup.events" (4.5; "frozen" 5.2). A read is always current; a notification comes up to 20 ms
late when two changes follow closely, so every wait reads after it woke, and again at least every RECHECK_S.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable
from typing import Any, NamedTuple

from spurproc.core._native import check, ffi, lib
from spurproc.core.deadline import left_s, shortest_s
from spurproc.errors import AlreadyGone, from_errno

__all__ = ["RECHECK_S", "CgroupEvents", "EventsState", "open_events"]

RECHECK_S = 0.25


class EventsState(NamedTuple):
    """One reading. `frozen` is false where the kernel does not say."""

    populated: bool
    frozen: bool


def open_events(folder_fd: int) -> int:
    """Open `cgroup.events`. Raises AlreadyGone for a removed cgroup, and for the top of the hierarchy, which has no such file."""
    try:
        return os.open("cgroup.events", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder_fd)
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "open", "cgroup.events") from None


class CgroupEvents:
    """An open `cgroup.events`, owned."""

    def __init__(self, events_fd: int) -> None:
        self._fd = events_fd
        self._state: Any = ffi.new("spur_cgroup_events_t *")

    def fileno(self) -> int:
        """The descriptor; poll it for POLLPRI."""
        return self._fd

    def close(self) -> None:
        """Close it; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def read(self) -> EventsState:
        """The current state. Raises AlreadyGone when the cgroup was removed. Does not block."""
        fd = self._fd
        error = lib.spur_cgroup_events_read(fd, self._state)
        if self._fd != fd:  # closed by another thread: this may be another cgroup's, under the same descriptor
            error = -errno.EBADF
        check(error, "read", "cgroup.events")
        return EventsState(populated=self._state.populated == 1, frozen=self._state.frozen == 1)

    def is_empty(self) -> bool:
        """Whether nothing lives in it or below: "populated 0", or removed."""
        try:
            return not self.read().populated
        except AlreadyGone:
            return True

    def wait(self, reached: Callable[[], bool], deadline: float | None) -> bool:
        """Block until `reached()` or the absolute monotonic `deadline`; whether it was reached."""
        poll = select.poll()
        poll.register(self._fd, select.POLLPRI)
        while not reached():
            wait_s = shortest_s(RECHECK_S, left_s(deadline))
            if not wait_s:
                return False
            poll.poll(wait_s * 1000)
        return True

    async def wait_async(self, reached: Callable[[], bool], deadline: float | None) -> bool:
        """As `wait`, on the running asyncio loop: neither a thread nor a signal handler."""
        from spurproc.core.process.pidfd_asyncio import Waiter  # noqa: PLC0415 - asyncio is loaded for those who wait in it

        with Waiter(self._fd, None) as waiter:
            while not reached():
                wait_s = shortest_s(RECHECK_S, left_s(deadline))
                if not wait_s:
                    return False
                await waiter.until(select.EPOLLPRI, wait_s)
        return True
