"""Attempts of which no folder tells any more, or none that can be read, and that nobody supervises: are they gone, or ended?"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.fencing import clear_cgroup, fence_lost
from spurproc.agent.attempts.step import spec_for
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Lost"]

_KILLED_WITHIN_S = 5.0
"""Whoever outlives its SIGKILL for so long is named, and killed once more each time it is looked at: no thread waits for it."""
_GRACE_MOST_S = 3600.0
"""What a user may ask for."""


class Lost:
    """Whoever watches one looks here, now and then, and at once when somebody wants it to end."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._to_end: dict[AttemptId, float] = {}
        """Since when, by the clock of the loop."""
        self._news: dict[AttemptId, asyncio.Event] = {}

    def end(self, attempt: Attempt, *, begun_s_ago: float) -> None:
        """It is to end, which is durable by now, and has been so for so long: its plan is not begun anew."""
        self._to_end.setdefault(attempt.id, asyncio.get_running_loop().time() - begun_s_ago)
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
        self._to_end.pop(attempt.id, None)
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
        since_s = self._to_end[attempt.id]
        plan = (await self._kill_plan(attempt)).after(asyncio.get_running_loop().time() - since_s)
        self._around.ownership.require()
        timeout_s = min(plan.kills_after_s, _GRACE_MOST_S) + _KILLED_WITHIN_S
        fenced = await self._around.blocking.walk(fence_lost, attempt, plan, timeout_s=timeout_s)
        self._around.log.warning("fenced", attempt=str(attempt.id), proof=fenced.words, gone=fenced.proven)
        return "" if fenced.proven else fenced.words

    async def _kill_plan(self, attempt: Attempt) -> KillPlan:
        with suppress(SpurprocError):
            return (await spec_for(self._around, attempt)).kill_plan
        return self._around.configuration.kill_plan
