"""Attempts whose leader has ended while their step goes on: for a moment each of them, and for good one that cannot be ended.

Nobody has cancelled these, so nobody waits for their end but those who want their resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.core.observation import Liveness
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Leaderless"]

_INTERVAL_S = 30.0


class Leaderless:
    """Looks at them now and then."""

    def __init__(
        self, around: Surroundings, live: Callable[[], Iterable[Attempt]], look: Callable[[Attempt], Awaitable[None]]
    ) -> None:
        """`live`: all attempts of which something runs, or may; `look`: asks its supervisor what is left."""
        self._around = around
        self._live = live
        self._look = look
        self._before: frozenset[AttemptId] = frozenset()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(min(_INTERVAL_S, self._around.configuration.inventory_interval_s))
            await self.turn()

    async def turn(self) -> None:
        """Ask of those that were so the last time as well: most are over before that."""
        found = await self._around.blocking.run(_leaderless, [attempt for attempt in self._live() if attempt.end is None])
        await asyncio.gather(*(self._look(attempt) for attempt in found if attempt.id in self._before))
        self._before = frozenset(attempt.id for attempt in found)


def _leaderless(attempts: Iterable[Attempt]) -> list[Attempt]:
    found = []
    for attempt in attempts:
        leader = attempt.trace.leader
        if leader is not None and leader.liveness() is Liveness.GONE:
            found.append(attempt)
    return found
