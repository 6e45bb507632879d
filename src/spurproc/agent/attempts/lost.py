"""Attempts of which no folder tells any more, or none that can be read, and that nobody supervises: are they gone, or ended?"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.fencing import clear_cgroup, fence_lost
from spurproc.agent.attempts.step import spec_for
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.core.tree.termination import KILL_ALL, KillPlan
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Lost"]

_WALKED_WITHIN_S = 60.0
"""A thread is not given away for ever."""
_AGAIN_WITHIN_S = 5.0
"""Whoever has outlived its kill plan is killed once more each time it is looked at."""


class Lost:
    """Whoever watches one looks here, now and then, and at once when somebody wants it to end."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._to_end: set[AttemptId] = set()
        self._walked: set[AttemptId] = set()
        self._news: dict[AttemptId, asyncio.Event] = {}

    def end(self, attempt: Attempt) -> None:
        """It is to end, which is durable by now."""
        self._to_end.add(attempt.id)
        self._news.setdefault(attempt.id, asyncio.Event()).set()

    def is_to_end(self, attempt: Attempt) -> bool:
        """Whether somebody has said so here."""
        return attempt.id in self._to_end

    async def pause(self, attempt: Attempt, seconds: float) -> None:
        """So long, or until it is to end."""
        news = self._news.setdefault(attempt.id, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()
        news.clear()

    def forget(self, attempt: Attempt) -> None:
        """It is over."""
        self._to_end.discard(attempt.id)
        self._walked.discard(attempt.id)
        self._news.pop(attempt.id, None)

    async def remains(self, attempt: Attempt) -> str:
        """What keeps it from being over, as part of a sentence; empty where nothing of it lives. One that is to end is ended."""
        if not await self._around.blocking.run(lambda: attempt.trace.is_gone):
            if not self.is_to_end(attempt):
                return "something of it may live"
            words = await self._fence(attempt)
            if words:
                return f"it cannot be ended: {words}"
        await self._around.blocking.run(clear_cgroup, attempt.trace)
        return ""

    async def _fence(self, attempt: Attempt) -> str:
        """Empty where nothing of it is left."""
        again = attempt.id in self._walked
        plan = KILL_ALL if again else await self._kill_plan(attempt)
        self._around.ownership.require()
        timeout_s = _AGAIN_WITHIN_S if again else _WALKED_WITHIN_S
        fenced = await self._around.blocking.walk(fence_lost, attempt, plan, timeout_s=timeout_s)
        self._walked.add(attempt.id)
        self._around.log.warning("fenced", attempt=str(attempt.id), proof=fenced.words, gone=fenced.proven)
        return "" if fenced.proven else fenced.words

    async def _kill_plan(self, attempt: Attempt) -> KillPlan:
        with suppress(SpurprocError):
            return (await spec_for(self._around, attempt)).kill_plan
        return self._around.configuration.kill_plan
