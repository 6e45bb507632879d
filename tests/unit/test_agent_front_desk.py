"""What the desk does to an attempt, whatever the agent believes of it: the step is asked, and what it answers counts."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.daemon.front_desk import FrontDesk
from spurproc.agent.log import open_log
from spurproc.agent.store.attempt_row import AttemptState
from spurproc.errors import Busy
from spurproc.proto.attempt_id import AttemptId

ATTEMPT = AttemptId(1, 1)
RUNNING, SUSPENDED = AttemptState.RUNNING, AttemptState.SUSPENDED


class Step:
    """Suspended or not, whatever anybody has written down."""

    def __init__(self, *, suspended: bool, error: Busy | None = None) -> None:
        self.suspended = suspended
        self.error = error

    def _turn(self, *, suspended: bool) -> None:
        if self.error is not None:
            raise self.error
        if self.suspended is suspended:
            raise Busy(errno.EBUSY, "cannot do that to step 1.1.batch: it is as it is")
        self.suspended = suspended

    def suspend(self) -> None:
        """See `client.step.Step`."""
        self._turn(suspended=True)

    def resume(self) -> None:
        """See `client.step.Step`."""
        self._turn(suspended=False)


def _asked(state: AttemptState, step: Step, act: Callable[[FrontDesk], Any]) -> list[AttemptEvent]:
    """What was recorded by it."""
    recorded: list[AttemptEvent] = []
    attempt = Attempt(id=ATTEMPT, allocation=None, accepted_at=0.0, uid=0, state=state, step=cast("Any", step))

    async def record(_: Attempt, event: AttemptEvent) -> None:
        recorded.append(event)

    async def scene() -> None:
        names = ("node_name", "max_job_script_bytes", "output_pattern", "kill_plan", "time_limit_s")
        around: Any = SimpleNamespace(
            blocking=Blocking(1),
            clock=lambda: 0.0,
            configuration=SimpleNamespace(**dict.fromkeys(names)),
            log=open_log("error", "text"),
            ownership=SimpleNamespace(require=lambda: None),
        )
        attempts: Any = SimpleNamespace(find=lambda _: attempt, runner=SimpleNamespace(record=record))
        try:
            await act(FrontDesk(around, attempts, cast("Any", None), cast("Any", None)))
        finally:
            await around.blocking.close()

    asyncio.run(scene())
    return recorded


@pytest.mark.parametrize(
    ("state", "suspended", "recorded"),
    [
        (SUSPENDED, True, [AttemptEvent.RESUMED]),
        (RUNNING, True, [AttemptEvent.RESUMED]),
        (SUSPENDED, False, [AttemptEvent.RESUMED]),
        (RUNNING, False, []),
    ],
)
def test_who_resumes_has_it_run(state: AttemptState, recorded: list[AttemptEvent], *, suspended: bool) -> None:
    """Also where an agent before us has frozen or thawed it, and did not come to write that down."""
    step = Step(suspended=suspended)
    assert _asked(state, step, lambda desk: desk.resume(ATTEMPT, uid=0)) == recorded
    assert not step.suspended


@pytest.mark.parametrize(
    ("state", "suspended", "recorded"),
    [(RUNNING, False, [AttemptEvent.SUSPENDED]), (SUSPENDED, False, [AttemptEvent.SUSPENDED]), (SUSPENDED, True, [])],
)
def test_who_suspends_has_it_stand_still(state: AttemptState, recorded: list[AttemptEvent], *, suspended: bool) -> None:
    step = Step(suspended=suspended)
    assert _asked(state, step, lambda desk: desk.suspend(ATTEMPT, uid=0)) == recorded
    assert step.suspended


def test_what_cannot_be_done_now_is_no_answer() -> None:
    """Such as while another supervisor takes it over; or where it cannot be suspended as it stands."""
    busy = Step(suspended=True, error=Busy(errno.EAGAIN, "another supervisor takes it over just now"))
    with pytest.raises(Busy):
        _asked(SUSPENDED, busy, lambda desk: desk.resume(ATTEMPT, uid=0))
    with pytest.raises(Busy):
        _asked(SUSPENDED, busy, lambda desk: desk.suspend(ATTEMPT, uid=0))
    with pytest.raises(Busy):
        _asked(RUNNING, Step(suspended=True), lambda desk: desk.suspend(ATTEMPT, uid=0))
