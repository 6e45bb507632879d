"""Attempts that nobody supervises, and that are to end: neither a restart nor another word begins their kill plan anew."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from spurproc import KillPlan
from spurproc.agent.attempts import lost
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.attempts.fencing import Fenced
from spurproc.agent.attempts.lost import Lost
from spurproc.agent.attempts.trace import Trace
from spurproc.proto.attempt_id import AttemptId
from tests.agent_around import surroundings
from tests.agent_values import job_spec

_PLAN = KillPlan(steps=((15, 600.0), (9, None)))


@pytest.mark.parametrize(("begun_s_ago", "signals", "waits_s"), [(0.0, [15, 9], 605), (500.0, [15, 9], 105), (700.0, [9], 5)])
def test_its_plan_goes_on_from_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, begun_s_ago: float, signals: list[int], waits_s: int
) -> None:
    walked: list[tuple[list[int], int]] = []

    def fence(_: Attempt, plan: KillPlan, *, timeout_s: float) -> Fenced:
        walked.append(([signal for signal, _ in plan.steps], round(timeout_s)))
        return Fenced(proven=False, words="it lives")

    async def scene() -> str:
        around = surroundings(blocking=Blocking(1), configuration=SimpleNamespace())
        attempt = Attempt(id=AttemptId(1, 1), allocation=None, accepted_at=1.0, uid=0, trace=Trace(b"not read"))
        attempt.spec = job_spec(kill_plan=_PLAN)
        trees = Lost(around)
        assert await trees.remains(attempt) == "something of it may live"
        trees.end(attempt, begun_s_ago=begun_s_ago)
        trees.end(attempt, begun_s_ago=0.0)
        words = await trees.remains(attempt)
        await around.blocking.close()
        return words

    monkeypatch.setattr(lost, "fence_lost", fence)
    assert asyncio.run(scene()) == "it cannot be ended: it lives"
    assert walked == [(signals, waits_s)]
