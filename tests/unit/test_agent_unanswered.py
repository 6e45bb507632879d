"""Supervisors that say nothing: which of them are named, and which are ended."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spurproc.agent.attempts import unanswered
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.attempts.unanswered import Seen, Unanswered
from spurproc.agent.store.attempt_row import CancelIntent
from spurproc.core.observation import Liveness
from spurproc.errors import Busy
from spurproc.proto.attempt_id import AttemptId
from tests.agent_around import surroundings

_ALIVE, _GONE, _UNKNOWN = Liveness.ALIVE, Liveness.GONE, Liveness.UNKNOWN
_NONE = cast("Any", None)


class _Step:
    """As one is used here."""

    def __init__(self, *, answers: bool = False) -> None:
        self.answers = answers
        self.asked = 0

    def kill_hung_supervisor(self, *, unanswered_s: float) -> None:
        assert unanswered_s == unanswered._HELLO_WITHIN_S
        self.asked += 1
        if self.answers:
            raise Busy(errno.EBUSY, "it answers")


def _seen(leader: Liveness | None, *, supervisor: Liveness = _ALIVE, supervised: bool = False, pid: int = 7) -> Seen:
    status = cast("Any", SimpleNamespace(supervised=supervised, supervisor=SimpleNamespace(pid=pid)))
    return Seen(status=status, supervisor=supervisor, leader=leader)


class _Scene:
    """The looks at one attempt, one after the other."""

    def __init__(self, *, cancelled: bool = False, answers: bool = False) -> None:
        self.around = surroundings(blocking=Blocking(1))
        self.attempt = Attempt(id=AttemptId(1, 1), allocation=None, accepted_at=1.0, uid=0)
        self.attempt.cancel = CancelIntent(uid=0, why="by the test", at=1.0) if cancelled else None
        self.step = _Step(answers=answers)

    def look(self, *looks: Seen) -> tuple[bool, int]:
        """Whether it is named after them, and how often it was to be ended."""

        async def all_of_them() -> None:
            supervisors = Unanswered(self.around)
            for seen in looks:
                await supervisors.take(self.attempt, cast("Any", self.step), seen)
            await self.around.blocking.close()

        asyncio.run(all_of_them())
        return bool(self.around.problems), self.step.asked


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered, "_ENDED_AFTER_S", 0.0)


@pytest.mark.parametrize("cancelled", [False, True])
def test_one_is_named_at_the_first_look_and_ended_at_a_later_one(*, cancelled: bool) -> None:
    assert _Scene(cancelled=cancelled).look(_seen(_GONE)) == (True, 0)
    assert _Scene(cancelled=cancelled).look(_seen(_GONE), _seen(_GONE)) == (False, 1)


def test_one_that_was_told_to_end_and_has_no_leader_is_ended() -> None:
    assert _Scene(cancelled=True).look(_seen(None), _seen(None)) == (False, 1)
    assert _Scene().look(_seen(None), _seen(None)) == (False, 0)


@pytest.mark.parametrize("leader", [_ALIVE, _UNKNOWN])
def test_one_whose_leader_lives_or_may_is_ended_by_nobody(leader: Liveness) -> None:
    """It is named where somebody waits for the end."""
    assert _Scene().look(*[_seen(leader)] * 3) == (False, 0)
    assert _Scene(cancelled=True).look(*[_seen(leader)] * 3) == (True, 0)


def test_nothing_is_ended_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered, "_ENDED_AFTER_S", 3600.0)
    assert _Scene().look(*[_seen(_GONE)] * 3) == (True, 0)


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(_seen(_GONE, supervised=True), id="it answers"),
        pytest.param(_seen(_GONE, supervisor=_UNKNOWN), id="nobody can tell whether it lives"),
        pytest.param(_seen(_ALIVE), id="its leader lives"),
    ],
)
def test_what_was_seen_counts_only_in_a_row(between: Seen) -> None:
    assert _Scene().look(_seen(_GONE), between) == (False, 0)
    assert _Scene().look(_seen(_GONE), between, _seen(_GONE)) == (True, 0)


def test_one_that_is_dead_waits_for_its_host_which_is_named() -> None:
    dead = _seen(_GONE, supervisor=_GONE)
    assert _Scene().look(*[dead] * 3) == (True, 0)
    assert _Scene().look(_seen(_GONE), dead, _seen(_GONE)) == (True, 0)
    assert _Scene().look(dead, _seen(_GONE, supervised=True)) == (False, 0)


def test_another_supervisor_has_its_own_time() -> None:
    assert _Scene().look(_seen(_GONE, pid=7), _seen(_GONE, pid=8)) == (True, 0)


def test_one_that_answers_after_all_is_asked_again() -> None:
    assert _Scene(answers=True).look(*[_seen(_GONE)] * 3) == (True, 2)
