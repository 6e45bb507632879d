"""Waiting for a pidfd in a running asyncio loop. Imported by `Pidfd.wait_async` alone: asyncio is not cheap."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from types import TracebackType
from typing import Self

__all__ = ["Waiter"]

_LOOK_S = 0.02


class Waiter:
    """One waiter on one pidfd. Close it with `with`.

    A private epoll descriptor stands between the pidfd and the loop: a loop takes one reader per descriptor, while several may
    wait for one process; and a loop always asks for readability, which on a zombie would fire without end when only the reap
    (POLLHUP) is waited for.
    """

    def __init__(self, fd: int, look: Callable[[int], bool] | None) -> None:
        """`fd` is borrowed. `look(events)` replaces polling where the descriptor cannot be polled.

        A copy of `fd` is watched: the kernel drops a closed descriptor from an epoll without a word, and who waits for it would
        wait for ever.
        """
        self._look = look
        self._epoll = select.epoll()
        self._fd = -1
        if look is None:
            self._fd = os.dup(fd)
            self._epoll.register(self._fd, 0)

    async def until(self, events: int, timeout_s: float | None) -> bool:
        """Until the descriptor shows `events` (0: POLLHUP), or for `timeout_s`; True if it came."""
        loop = asyncio.get_running_loop()
        if self._look is not None:
            return await self._until_seen(self._look, events, None if timeout_s is None else loop.time() + timeout_s)
        self._epoll.modify(self._fd, events)
        came: asyncio.Future[bool] = loop.create_future()
        loop.add_reader(self._epoll.fileno(), _settle, came, True)
        timer = None if timeout_s is None else loop.call_later(timeout_s, _settle, came, False)
        try:
            return await came
        finally:
            loop.remove_reader(self._epoll.fileno())
            if timer is not None:
                timer.cancel()

    async def _until_seen(self, look: Callable[[int], bool], events: int, deadline: float | None) -> bool:
        while not look(events):
            left_s = _LOOK_S if deadline is None else min(_LOOK_S, deadline - asyncio.get_running_loop().time())
            if left_s <= 0:
                return False
            await asyncio.sleep(left_s)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._epoll.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _settle(came: asyncio.Future[bool], value: bool) -> None:
    if not came.done():
        came.set_result(value)
