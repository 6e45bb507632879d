"""The report of an attempt: offered until the controller has answered, however long that takes, and blocking no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.link import Acknowledged, AttemptReport, RefusedForGood, Unreachable
from spurproc.agent.controller.registration import BackOff

__all__ = ["offer", "told"]

_REFUSED_FIRST_S, _REFUSED_LAST_S = 30.0, 3600.0


async def offer(around: Surroundings, attempt: Attempt, post: Callable[[Attempt, AttemptEvent], None]) -> None:
    """Say it until it is answered. One that was refused is said again later: an operator may have mended what was wrong.

    Nobody has to take the report of an attempt in whose place a later one has been run, or that its controller has given up.
    """
    if attempt.refusals:
        await asyncio.sleep(min(_REFUSED_FIRST_S * 2 ** min(attempt.refusals - 1, 10), _REFUSED_LAST_S))
    answer = await told(around, attempt.report())
    if answer is not None:
        attempt.refused_because = None if isinstance(answer, Acknowledged) else answer.why
        taken = isinstance(answer, Acknowledged) or attempt.displaced_by is not None or attempt.given_up
        post(attempt, AttemptEvent.REPORTED if taken else AttemptEvent.REPORT_REFUSED)


async def told(around: Surroundings, report: AttemptReport) -> Acknowledged | RefusedForGood | None:
    """Say it until it is answered. None where the agent ends before. Raises OwnershipLost."""
    back_off = BackOff()
    while not around.halted:
        around.ownership.require()
        try:
            return await around.link.report(report)
        except Unreachable:
            await asyncio.sleep(back_off.next_s())
    return None
