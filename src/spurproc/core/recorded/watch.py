"""Waiting for facts about a run: ends and reaps of processes, changes of its folder. One wait for threads, one for asyncio."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass

from spurproc.core._native import check, ffi, lib
from spurproc.core.deadline import deadline_after, left_s, poll_ms, shortest_s
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd

__all__ = ["FolderWatch", "Watch", "wait_async_for", "wait_end", "wait_for"]

_EVENTS_BYTES = 4096
_LOOK_S = 0.02  # without pidfd_open a descriptor cannot be polled


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What to wait for: (descriptor, poll events), events 0 for POLLHUP alone; and at most `timeout_s`, None for ever."""

    entries: tuple[tuple[int, int], ...]
    timeout_s: float | None


class FolderWatch:
    """Readable when something in a folder changes. Owns its descriptor. Source: inotify(7)."""

    def __init__(self, folder_fd: int) -> None:
        """Raises SystemCallError where the user has no inotify instance left (fs.inotify.max_user_instances)."""
        ret_fd = ffi.new("int *")
        check(lib.spur_watch_open(folder_fd, ret_fd), "watch", "a folder (see fs.inotify.max_user_instances)")
        self._fd = int(ret_fd[0])

    def fileno(self) -> int:
        """Borrowed."""
        return self._fd

    def clear(self) -> None:
        """Forget the changes so far: call it before looking, so that none is lost."""
        try:
            while os.read(self._fd, _EVENTS_BYTES):
                continue
        except BlockingIOError:
            return

    def close(self) -> None:
        """Let go. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def wait_for(watch: Watch) -> None:
    """Block until one of the descriptors shows what is waited for, or for the time given, at most a day."""
    poll = select.poll()
    for fd, events in watch.entries:
        poll.register(fd, events)
    poll.poll(poll_ms(watch.timeout_s))


def wait_end(process: Pidfd, timeout_s: float) -> None:
    """Block until `process` has ended, for at most `timeout_s`; reaps nobody."""
    deadline = deadline_after(timeout_s)
    entries = ((process.fileno(), select.POLLIN),) if Facilities.current().pidfd_open else ()
    while process.liveness() is Liveness.ALIVE and (left := left_s(deadline)) != 0:
        wait_for(Watch(entries=entries, timeout_s=left if entries else shortest_s(left, _LOOK_S)))


async def wait_async_for(watch: Watch) -> None:
    """As `wait_for`, on the running asyncio loop: no thread, no signal handler.

    An epoll descriptor stands between: a loop asks for readability alone, and a zombie's pidfd would be readable without end
    while its reap (POLLHUP) is waited for.
    """
    import asyncio  # noqa: PLC0415 - for those who wait in it

    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not came.done():
            came.set_result(None)

    timer = None if watch.timeout_s is None else loop.call_later(watch.timeout_s, settle)
    with select.epoll() as epoll:
        for fd, events in watch.entries:
            epoll.register(fd, events)
        loop.add_reader(epoll.fileno(), settle)
        try:
            await came
        finally:
            loop.remove_reader(epoll.fileno())
            if timer is not None:
                timer.cancel()
