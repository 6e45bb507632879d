"""What runs beside each other while the agent serves, and what becomes of the agent where one of it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from spurproc.errors import OwnershipLost

__all__ = ["Loops", "first_of"]


class Loops:
    """The loops of the agent. Each of them runs until it is cancelled."""

    def __init__(self, log: Any, *, stop: asyncio.Event, lost: asyncio.Event) -> None:
        """`stop` is set where one fails, `lost` where one has found that the state folder is not ours any more."""
        self._log = log
        self._stop = stop
        self._lost = lost
        self._tasks: list[asyncio.Task[None]] = []
        self.failed = False
        """Whether one of them has ended by a fault of ours."""

    def begin(self, *loops: Callable[[], Awaitable[None]]) -> None:
        """Run them."""
        self._tasks += [asyncio.create_task(self._guarded(loop)) for loop in loops]

    async def close(self) -> None:
        """Cancel them, and return once they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        """A loop that fails is a fault of ours: the agent ends, the jobs live on, and a restart takes them up again."""
        try:
            await loop()
        except OwnershipLost:
            self._lost.set()
        except Exception:  # noqa: BLE001 - whatever it is: a fault of ours
            self._log.exception("a loop of the agent has failed")
            self.failed = True
            self._stop.set()


async def first_of(*events: asyncio.Event) -> None:
    """Return once one of them is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
