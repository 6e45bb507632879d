"""Attempts whose time limit is over, and whose supervisor, who keeps it, is dead or says nothing: they are told to end here.

A supervisor that answers keeps it by itself, however long its kill plan takes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from contextlib import suppress

from spurproc.agent import boot_clock
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.recovered import launch_of
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.unanswered import see
from spurproc.agent.store.attempt_row import CancelIntent
from spurproc.core.observation import Liveness
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Overdue"]

_INTERVAL_S = 5.0


class Overdue:
    """Looks at those that run, now and then."""

    def __init__(
        self, around: Surroundings, live: Callable[[], Iterable[Attempt]], cancel: Callable[[Attempt, CancelIntent], None]
    ) -> None:
        """`live`: all attempts of which something runs, or may; `cancel`: has one end."""
        self._around = around
        self._live = live
        self._cancel = cancel
        self._until: dict[AttemptId, float] = {}
        """By the boot clock."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(min(_INTERVAL_S, self._around.configuration.inventory_interval_s))
            await self.turn()

    async def turn(self) -> None:
        """Those that nobody has told to end."""
        running = {one.id: one for one in self._live() if one.step is not None and one.cancel is None and one.end is None}
        known = {attempt: until for attempt, until in self._until.items() if attempt in running}
        new = [one for attempt, one in running.items() if attempt not in known]
        self._until = known | await self._around.blocking.run(_found, self._around, new)
        now_s = boot_clock.boot_s()
        await asyncio.gather(*(self._look(running[attempt]) for attempt, until in self._until.items() if until < now_s))

    async def _look(self, attempt: Attempt) -> None:
        assert attempt.step is not None  # noqa: S101 - asked before
        try:
            seen = await self._around.blocking.walk(see, attempt.step)
        except (SpurprocError, OSError):  # it is over, or cannot be read, which is told where it is watched
            return
        if not seen.status.supervised and seen.leader is Liveness.ALIVE and attempt.cancel is None and attempt.end is None:
            self._cancel(attempt, self._around.intent("its time limit is over, and its supervisor does not see to that"))


def _found(around: Surroundings, attempts: Iterable[Attempt]) -> dict[AttemptId, float]:
    """Until when each may run: for ever, where it has no limit. Those that have no process yet are left out."""
    found = {}
    for attempt in attempts:
        leader = attempt.trace.leader
        if leader is None:
            continue
        with suppress(SpurprocError):  # looked at again
            since_s, limit_s = boot_clock.started_s(leader), launch_of(around, attempt.id).time_limit_s
            found[attempt.id] = math.inf if since_s is None or limit_s is None else since_s + limit_s
    return found
