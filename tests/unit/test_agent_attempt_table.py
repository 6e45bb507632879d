"""The life of an attempt as a table: every pair is in it, and on no way through it is anything done too early, twice or never."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.agent.attempts.effect import Effect
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.records import RECORDS
from spurproc.agent.attempts.table import LIVE, TABLE, Facts, Move, move
from spurproc.agent.store.attempt_row import AttemptState

S, E, F = AttemptState, AttemptEvent, Effect
_FREE = (F.RECORD_RELEASED, F.RELEASE)
_REMOVE = (F.REMOVE_STEP, F.REMOVE_HOOKS, F.REMOVE_SPOOL, F.RECORD_FORGOTTEN, F.LEAVE)
_OVER = Move(S.REPORTING, (F.RECORD_END, F.RECORD_EPILOG, *_FREE, F.OFFER_REPORT))
_OVER_WITH_EPILOG = Move(S.EPILOG, (F.RECORD_END, F.OFFER_REPORT, F.RUN_EPILOG))
_CANCELLED = Move(_OVER.state, (F.RECORD_CANCEL, *_OVER.effects))
_TERMINATED = Move(S.ENDING, (F.RECORD_CANCEL, F.TERMINATE))
_WATCHED = Move(S.RUNNING, (F.WATCH,))
_LAUNCHED = Move(S.LAUNCHING, (F.PREPARE, F.LAUNCH))
_HELD = Move(S.HELD, (F.RECORD_HELD,))

_ROWS: dict[tuple[AttemptState, AttemptEvent], Move] = {
    (S.ACCEPTED, E.BEGIN): _LAUNCHED,
    (S.ACCEPTED, E.CANCEL): _CANCELLED,
    (S.PROLOG, E.BEGIN): Move(S.PROLOG, (F.RUN_PROLOG,)),
    (S.PROLOG, E.HOOK_PASSED): _LAUNCHED,
    (S.PROLOG, E.HOOK_FAILED): Move(_OVER.state, (F.RECORD_PROLOG_FAILED, *_OVER.effects)),
    (S.PROLOG, E.CANCEL): Move(S.PROLOG, (F.RECORD_CANCEL,)),
    (S.LAUNCHING, E.BEGIN): _LAUNCHED,
    (S.LAUNCHING, E.LAUNCHED): _WATCHED,
    (S.LAUNCHING, E.NOT_LAUNCHED): _OVER,
    (S.LAUNCHING, E.STUCK): _HELD,
    (S.LAUNCHING, E.CANCEL): Move(S.LAUNCHING, (F.RECORD_CANCEL,)),
    (S.RUNNING, E.BEGIN): _WATCHED,
    (S.RUNNING, E.SUSPENDED): Move(S.SUSPENDED, (F.RECORD_STATE,)),
    (S.RUNNING, E.CANCEL): _TERMINATED,
    (S.RUNNING, E.STEP_OVER): _OVER,
    (S.RUNNING, E.STUCK): _HELD,
    (S.SUSPENDED, E.BEGIN): Move(S.SUSPENDED, (F.WATCH,)),
    (S.SUSPENDED, E.RESUMED): Move(S.RUNNING, (F.RECORD_STATE,)),
    (S.SUSPENDED, E.CANCEL): _TERMINATED,
    (S.SUSPENDED, E.STEP_OVER): _OVER,
    (S.SUSPENDED, E.STUCK): _HELD,
    (S.ENDING, E.BEGIN): _WATCHED,
    (S.ENDING, E.CANCEL): _TERMINATED,
    (S.ENDING, E.STEP_OVER): _OVER,
    (S.ENDING, E.STUCK): _HELD,
    (S.HELD, E.BEGIN): Move(S.HELD, (F.RECORD_HELD, F.WATCH)),
    (S.HELD, E.CANCEL): Move(S.HELD, (F.RECORD_CANCEL, F.TERMINATE)),
    (S.HELD, E.FOUND): Move(S.RUNNING, (F.RECORD_STATE,)),
    (S.HELD, E.STEP_OVER): _OVER,
    (S.HELD, E.STUCK): _HELD,
    (S.EPILOG, E.BEGIN): Move(S.EPILOG, (F.OFFER_REPORT, F.RUN_EPILOG)),
    (S.EPILOG, E.HOOK_PASSED): Move(S.REPORTING, (F.RECORD_EPILOG, *_FREE)),
    (S.EPILOG, E.HOOK_FAILED): Move(S.REPORTING, (F.RECORD_EPILOG_FAILED, F.RECORD_EPILOG, *_FREE)),
    (S.EPILOG, E.REPORTED): Move(S.EPILOG, (F.RECORD_REPORTED,)),
    (S.EPILOG, E.REPORT_REFUSED): Move(S.EPILOG, (F.RECORD_REFUSED, F.OFFER_REPORT)),
    (S.RELEASING, E.BEGIN): Move(S.REPORTING, (F.OFFER_REPORT, *_FREE)),
    (S.REPORTING, E.BEGIN): Move(S.REPORTING, (F.OFFER_REPORT,)),
    (S.REPORTING, E.REPORTED): Move(S.FORGETTING, (F.RECORD_REPORTED, *_REMOVE)),
    (S.REPORTING, E.REPORT_REFUSED): Move(S.REPORTING, (F.RECORD_REFUSED, F.OFFER_REPORT)),
    (S.FORGETTING, E.BEGIN): Move(S.FORGETTING, _REMOVE),
}

_BY_FACTS = [
    (S.ACCEPTED, E.BEGIN, Facts(has_prolog=True), Move(S.PROLOG, (F.RUN_PROLOG,))),
    (S.ACCEPTED, E.BEGIN, Facts(has_prolog=True, cancelled=True), _CANCELLED),
    (S.ACCEPTED, E.BEGIN, Facts(has_step=False), Move(S.RUNNING)),
    (S.PROLOG, E.HOOK_PASSED, Facts(has_prolog=True, cancelled=True), _CANCELLED),
    (S.LAUNCHING, E.LAUNCHED, Facts(cancelled=True), Move(S.ENDING, (F.RECORD_CANCEL, F.WATCH, F.TERMINATE))),
    (S.RUNNING, E.BEGIN, Facts(cancelled=True), Move(S.ENDING, (F.RECORD_CANCEL, F.WATCH, F.TERMINATE))),
    (S.SUSPENDED, E.BEGIN, Facts(cancelled=True), Move(S.ENDING, (F.RECORD_CANCEL, F.WATCH, F.TERMINATE))),
    (S.RUNNING, E.CANCEL, Facts(has_step=False), _CANCELLED),
    (S.HELD, E.FOUND, Facts(cancelled=True), Move(S.ENDING, (F.RECORD_CANCEL, F.TERMINATE))),
    (S.HELD, E.BEGIN, Facts(cancelled=True), Move(S.HELD, (F.RECORD_CANCEL, F.RECORD_HELD, F.WATCH, F.TERMINATE))),
    (S.RUNNING, E.STEP_OVER, Facts(has_epilog=True), _OVER_WITH_EPILOG),
    (S.LAUNCHING, E.NOT_LAUNCHED, Facts(has_epilog=True), _OVER_WITH_EPILOG),
    (S.EPILOG, E.HOOK_PASSED, Facts(has_epilog=True, reported=True), Move(S.FORGETTING, (F.RECORD_EPILOG, *_FREE, *_REMOVE))),
    (S.EPILOG, E.BEGIN, Facts(has_epilog=True, reported=True), Move(S.EPILOG, (F.RUN_EPILOG,))),
    (S.RELEASING, E.BEGIN, Facts(reported=True), Move(S.FORGETTING, (*_FREE, *_REMOVE))),
]


def test_every_pair_is_in_the_table() -> None:
    """No state and no event can be forgotten."""
    assert set(TABLE) == set(itertools.product(AttemptState, AttemptEvent))


@pytest.mark.parametrize(("state", "event"), list(TABLE), ids=lambda one: one.value)
def test_each_row_of_an_attempt_without_hooks(state: AttemptState, event: AttemptEvent) -> None:
    """What is not listed here changes nothing."""
    assert move(state, event, Facts()) == _ROWS.get((state, event), Move(state))


@pytest.mark.parametrize(("state", "event"), list(TABLE), ids=lambda one: one.value)
@pytest.mark.parametrize("has_epilog", [False, True])
def test_nobody_is_signalled_before_the_intent_is_durable(state: AttemptState, event: AttemptEvent, *, has_epilog: bool) -> None:
    """Also where one is to end since a start has found two that cannot both be: nothing was recorded of that before."""
    effects = move(state, event, Facts(cancelled=True, has_epilog=has_epilog)).effects
    assert F.TERMINATE not in effects or F.RECORD_CANCEL in effects[: effects.index(F.TERMINATE)]


@pytest.mark.parametrize(("state", "event", "facts", "expected"), _BY_FACTS)
def test_what_depends_on_facts(state: AttemptState, event: AttemptEvent, facts: Facts, expected: Move) -> None:
    """Hooks, reservations, what was cancelled, or reported."""
    assert move(state, event, facts) == expected


def test_the_records_are_those_that_are_called_so() -> None:
    """The runner puts them into one transaction, and each is known to it."""
    assert {effect for effect in Effect if effect.name.startswith("RECORD")} == set(RECORDS)


_FACTS = st.builds(Facts, has_prolog=st.booleans(), has_epilog=st.booleans())


@given(facts=_FACTS, events=st.lists(st.sampled_from(AttemptEvent), max_size=30))
def test_nothing_is_done_too_early_or_twice(facts: Facts, events: list[AttemptEvent]) -> None:
    """Whatever comes, in whatever order, from an attempt's first moment on in one life of the agent."""
    state, cancelled, reported = S.ACCEPTED, False, False
    done: list[Effect] = []
    for event in [E.BEGIN, *(one for one in events if one is not E.BEGIN)]:
        cancelled |= event is E.CANCEL
        reported |= event is E.REPORTED and F.OFFER_REPORT in done
        if event is E.REPORTED and not reported:
            continue
        now = Facts(
            has_prolog=facts.has_prolog,
            has_epilog=facts.has_epilog,
            cancelled=cancelled,
            reported=reported,
        )
        answer = move(state, event, now)
        state = answer.state
        done += answer.effects
    _check(done, state)


def _check(done: list[Effect], state: AttemptState) -> None:
    for once in (F.LAUNCH, F.RUN_PROLOG, F.RUN_EPILOG, F.RECORD_END, F.RELEASE, F.RECORD_FORGOTTEN, F.LEAVE, F.WATCH):
        assert done.count(once) <= 1, once
    for earlier, later in (
        (F.PREPARE, F.LAUNCH),
        (F.RECORD_CANCEL, F.TERMINATE),
        (F.RECORD_END, F.OFFER_REPORT),
        (F.RECORD_END, F.RUN_EPILOG),
        (F.RECORD_EPILOG, F.RECORD_RELEASED),
        (F.RECORD_RELEASED, F.RELEASE),
        (F.OFFER_REPORT, F.REMOVE_STEP),
        (F.RECORD_REPORTED, F.REMOVE_STEP),
        (F.RELEASE, F.REMOVE_STEP),
        (F.REMOVE_SPOOL, F.RECORD_FORGOTTEN),
        (F.RECORD_FORGOTTEN, F.LEAVE),
    ):
        if later in done:
            assert earlier in done[: done.index(later)], (earlier, later)
    if state in LIVE:
        assert F.RELEASE not in done
    if F.LEAVE in done:
        assert done[-1] is F.LEAVE
        assert state is S.FORGETTING
