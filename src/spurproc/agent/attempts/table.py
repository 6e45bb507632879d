"""The life of an attempt as a total table: in which state which event leads where, and what is done on the way.

Nothing here touches a process, a file or the store: a handler takes the facts of the attempt and returns the next state and the
effects, in order. `effects.py` carries them out. What a state does not list it lets pass: an event that comes too late, or again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spurproc.agent.attempts.effect import Effect
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.store.attempt_row import AttemptState

__all__ = ["LIVE", "TABLE", "Facts", "Move", "move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a move depends on besides state and event."""

    has_prolog: bool = False
    """One is to be run, or was begun."""
    has_epilog: bool = False
    has_step: bool = True
    """False of a reservation, in which nothing runs."""
    cancelled: bool = False
    reported: bool = False
    """That event was taken, and is durable."""


@dataclass(frozen=True, slots=True)
class Move:
    """Where an event leads, and what is done, in this order."""

    state: AttemptState
    effects: tuple[Effect, ...] = ()


Handler = Callable[[Facts], Move]

_ACCEPTED, _PROLOG, _LAUNCHING = AttemptState.ACCEPTED, AttemptState.PROLOG, AttemptState.LAUNCHING
_RUNNING, _SUSPENDED, _ENDING, _HELD = AttemptState.RUNNING, AttemptState.SUSPENDED, AttemptState.ENDING, AttemptState.HELD
_EPILOG, _RELEASING = AttemptState.EPILOG, AttemptState.RELEASING
_REPORTING, _FORGETTING = AttemptState.REPORTING, AttemptState.FORGETTING

LIVE = frozenset({_ACCEPTED, _PROLOG, _LAUNCHING, _RUNNING, _SUSPENDED, _ENDING, _HELD})
"""Something of the job runs, or will, or may."""

_FREE = (Effect.RECORD_RELEASED, Effect.RELEASE)
_REMOVE = (Effect.REMOVE_STEP, Effect.REMOVE_HOOKS, Effect.REMOVE_SPOOL, Effect.RECORD_FORGOTTEN, Effect.LEAVE)


def _to(state: AttemptState, *effects: Effect) -> Handler:
    answer = Move(state, effects)
    return lambda _: answer


def _before(move_: Move, *effects: Effect) -> Move:
    return Move(move_.state, (*effects, *move_.effects))


def _launch(facts: Facts) -> Move:
    if facts.cancelled:
        return _before(_over(facts), Effect.RECORD_CANCEL)
    if not facts.has_step:
        return Move(_RUNNING)
    return Move(_LAUNCHING, (Effect.PREPARE, Effect.LAUNCH))


def _begin(facts: Facts) -> Move:
    if facts.cancelled or not facts.has_prolog:
        return _launch(facts)
    return Move(_PROLOG, (Effect.RUN_PROLOG,))


def _launched(facts: Facts) -> Move:
    if not facts.has_step:
        return _launch(facts)
    if facts.cancelled:
        return Move(_ENDING, (Effect.RECORD_CANCEL, Effect.WATCH, Effect.TERMINATE))
    return Move(_RUNNING, (Effect.WATCH,))


def _begin_suspended(facts: Facts) -> Move:
    return _launched(facts) if facts.cancelled else Move(_SUSPENDED, (Effect.WATCH,))


def _begin_held(facts: Facts) -> Move:
    if facts.cancelled:
        return Move(_HELD, (Effect.RECORD_CANCEL, Effect.RECORD_HELD, Effect.WATCH, Effect.TERMINATE))
    return Move(_HELD, (Effect.RECORD_HELD, Effect.WATCH))


def _cancel(facts: Facts) -> Move:
    """A reservation has nothing that would have to end first."""
    if facts.has_step:
        return Move(_ENDING, (Effect.RECORD_CANCEL, Effect.TERMINATE))
    return _before(_over(facts), Effect.RECORD_CANCEL)


def _found(facts: Facts) -> Move:
    """Whether it was told to end nobody knows; nor whether that it is to end is durable: a start may have found it so."""
    if facts.cancelled:
        return Move(_ENDING, (Effect.RECORD_CANCEL, Effect.TERMINATE))
    return Move(_RUNNING, (Effect.RECORD_STATE,))


def _over(facts: Facts) -> Move:
    """Its end is offered at once. Its resources are free only when the node has been cleaned up behind it."""
    if facts.has_epilog:
        return Move(_EPILOG, (Effect.RECORD_END, Effect.OFFER_REPORT, Effect.RUN_EPILOG))
    return Move(_REPORTING, (Effect.RECORD_END, Effect.RECORD_EPILOG, *_FREE, Effect.OFFER_REPORT))


def _prolog_failed(facts: Facts) -> Move:
    return _before(_over(facts), Effect.RECORD_PROLOG_FAILED)


def _freed(facts: Facts) -> Move:
    return Move(_FORGETTING, (*_FREE, *_REMOVE)) if facts.reported else Move(_REPORTING, _FREE)


def _epilog_failed(facts: Facts) -> Move:
    return _before(_freed(facts), Effect.RECORD_EPILOG_FAILED, Effect.RECORD_EPILOG)


def _refused(state: AttemptState) -> Handler:
    return _to(state, Effect.RECORD_REFUSED, Effect.OFFER_REPORT)


def _begin_epilog(facts: Facts) -> Move:
    return Move(_EPILOG, (*_unless(facts.reported, Effect.OFFER_REPORT), Effect.RUN_EPILOG))


def _begin_releasing(facts: Facts) -> Move:
    return _before(_freed(facts), *_unless(facts.reported, Effect.OFFER_REPORT))


def _unless(said: bool, effect: Effect) -> tuple[Effect, ...]:
    return () if said else (effect,)


_RUNS: dict[AttemptEvent, Handler] = {
    AttemptEvent.BEGIN: _launched,
    AttemptEvent.CANCEL: _cancel,
    AttemptEvent.STEP_OVER: _over,
    AttemptEvent.STUCK: _to(_HELD, Effect.RECORD_HELD),
}
_TOLD_TO_END = _to(_ENDING, Effect.RECORD_CANCEL, Effect.TERMINATE)

_LISTED: dict[AttemptState, dict[AttemptEvent, Handler]] = {
    _ACCEPTED: {
        AttemptEvent.BEGIN: _begin,
        AttemptEvent.CANCEL: lambda facts: _before(_over(facts), Effect.RECORD_CANCEL),
    },
    _PROLOG: {
        AttemptEvent.BEGIN: _to(_PROLOG, Effect.RUN_PROLOG),
        AttemptEvent.HOOK_PASSED: _launch,
        AttemptEvent.HOOK_FAILED: _prolog_failed,
        AttemptEvent.CANCEL: _to(_PROLOG, Effect.RECORD_CANCEL),
    },
    _LAUNCHING: {
        AttemptEvent.BEGIN: _launch,
        AttemptEvent.LAUNCHED: _launched,
        AttemptEvent.NOT_LAUNCHED: _over,
        AttemptEvent.STUCK: _to(_HELD, Effect.RECORD_HELD),
        AttemptEvent.CANCEL: _to(_LAUNCHING, Effect.RECORD_CANCEL),
    },
    _RUNNING: {**_RUNS, AttemptEvent.SUSPENDED: _to(_SUSPENDED, Effect.RECORD_STATE)},
    _SUSPENDED: {
        **_RUNS,
        AttemptEvent.BEGIN: _begin_suspended,
        AttemptEvent.RESUMED: _to(_RUNNING, Effect.RECORD_STATE),
    },
    _ENDING: {
        AttemptEvent.BEGIN: _launched,
        AttemptEvent.CANCEL: _TOLD_TO_END,
        AttemptEvent.STEP_OVER: _over,
        AttemptEvent.STUCK: _to(_HELD, Effect.RECORD_HELD),
    },
    _HELD: {
        AttemptEvent.BEGIN: _begin_held,
        AttemptEvent.CANCEL: _to(_HELD, Effect.RECORD_CANCEL, Effect.TERMINATE),
        AttemptEvent.FOUND: _found,
        AttemptEvent.STEP_OVER: _over,
        AttemptEvent.STUCK: _to(_HELD, Effect.RECORD_HELD),
    },
    _EPILOG: {
        AttemptEvent.BEGIN: _begin_epilog,
        AttemptEvent.HOOK_PASSED: lambda facts: _before(_freed(facts), Effect.RECORD_EPILOG),
        AttemptEvent.HOOK_FAILED: _epilog_failed,
        AttemptEvent.REPORTED: _to(_EPILOG, Effect.RECORD_REPORTED),
        AttemptEvent.REPORT_REFUSED: _refused(_EPILOG),
    },
    _RELEASING: {
        AttemptEvent.BEGIN: _begin_releasing,
    },
    _REPORTING: {
        AttemptEvent.BEGIN: _to(_REPORTING, Effect.OFFER_REPORT),
        AttemptEvent.REPORTED: _to(_FORGETTING, Effect.RECORD_REPORTED, *_REMOVE),
        AttemptEvent.REPORT_REFUSED: _refused(_REPORTING),
    },
    _FORGETTING: {
        AttemptEvent.BEGIN: _to(_FORGETTING, *_REMOVE),
    },
}


def _stay(state: AttemptState) -> Handler:
    answer = Move(state)
    return lambda _: answer


TABLE: dict[tuple[AttemptState, AttemptEvent], Handler] = {
    (state, event): _LISTED[state].get(event, _stay(state)) for state in AttemptState for event in AttemptEvent
}
"""Every pair."""


def move(state: AttemptState, event: AttemptEvent, facts: Facts) -> Move:
    """Where `event` leads from `state`."""
    return TABLE[state, event](facts)
