"""The supervisor as a total table: in which state which event leads where, and what is done on the way.

Nothing here touches a process or a file: a handler takes the facts of the step and returns the next state and the effects, in
order. `effects.py` carries them out. What a state does not list it refuses (a request) or lets pass (anything else).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from spurproc.proto.step_state import StepState

__all__ = ["REQUESTS", "TABLE", "Effect", "Facts", "Move", "StepEvent", "move"]


class StepEvent(enum.Enum):
    """What can happen to a step."""

    BEGIN = "begin"
    """A supervisor was forked for a step that was just published."""
    SUCCEED = "succeed"
    """A supervisor was forked for a step whose supervisor has died, and its end is recorded."""
    GAVE_UP = "gave up"
    """An effect on the way to the leader failed."""
    START = "start"
    START_OVERDUE = "start overdue"
    """Nobody sent `start` in time."""
    HOOK_PASSED = "hook passed"
    """A hook ended with code 0."""
    HOOK_FAILED = "hook failed"
    """It ended otherwise, was ended at its timeout, or nobody knows."""
    AT_GATE = "at gate"
    """The leader has taken all its steps but the exec."""
    EXECUTED = "executed"
    """The leader was exec'd."""
    LEADER_ENDED = "leader ended"
    """It is a zombie, exec'd or not."""
    SIGNAL = "signal"
    """Sent by who is asked for it, and answered with a report."""
    SUSPEND = "suspend"
    RESUME = "resume"
    TERMINATE = "terminate"
    """A request, SIGTERM, the time limit, or the folder was removed."""
    EMPTY = "empty"
    """It is proven that nothing of the tree is left."""
    UNENDABLE = "unendable"
    """The kill plan is over and something lives on, or nobody can tell."""
    ACKNOWLEDGE = "acknowledge"
    LINGER_OVER = "linger over"
    """Nobody asks any more; or nobody can, since the folder of a step that is held was removed."""


REQUESTS = frozenset(
    {
        StepEvent.START,
        StepEvent.SIGNAL,
        StepEvent.SUSPEND,
        StepEvent.RESUME,
        StepEvent.TERMINATE,
        StepEvent.ACKNOWLEDGE,
    }
)
"""The events that somebody asks for, and is told when they are refused."""


class Effect(enum.Enum):
    """What a supervisor does. Those that begin with `record` are durable, or appended, before the next one begins."""

    BIND = "bind the control socket"
    INHERIT = "take over what another supervisor has left"
    MAKE_CGROUP = "make the cgroup"
    DESCRIBE = "write the descriptor"
    SAY_READY = "say ready"
    RECORD_HOOK_BEGUN = "record hook_begun"
    RUN_HOOK = "run the hook"
    END_HOOK = "end the hook"
    RECORD_HOOK_COMPLETED = "record hook_completed"
    SPAWN_LEADER = "spawn the leader"
    HAND_OVER = "hand the leader over to the host"
    DESCRIBE_LEADER = "write the leader into the descriptor"
    RECORD_GATE_OPENING = "record gate_opening"
    OPEN_GATE = "open the gate"
    RECORD_LAUNCHED = "record launched"
    TELL_STARTED = "tell that it has started"
    LOWER = "give up what is not needed any more"
    FREEZE = "freeze the tree"
    THAW = "thaw the tree"
    RECORD_TERMINATING = "record terminating"
    WALK_PLAN = "walk the kill plan"
    ABANDON_LEADER = "close the gate and kill the leader"
    RECORD_EXIT_OBSERVED = "record exit_observed"
    REAP_LEADER = "reap the leader"
    TELL_ENDED = "tell how it ended"
    TELL_HELD = "tell what cannot be ended"
    RECORD_EMPTIED = "record emptied"
    TELL_COMPLETED = "tell that nothing is owed but the report"
    RECORD_ACKNOWLEDGED = "record acknowledged"
    LEAVE = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a move depends on besides state and event; none of it changes while the step lives."""

    has_leader: bool
    has_prolog: bool
    has_epilog: bool
    prolog_left: bool = False
    """Another supervisor began it and did not see its end: what is left of it has to be ended."""


@dataclass(frozen=True, slots=True)
class Move:
    """Where an event leads, and what is done, in this order."""

    state: StepState
    effects: tuple[Effect, ...] = ()


Handler = Callable[[Facts], Move]

_NEW, _READY, _PROLOG, _STARTING, _OPENING = (
    StepState.NEW,
    StepState.READY,
    StepState.PROLOG,
    StepState.STARTING,
    StepState.OPENING,
)
_RUNNING, _SUSPENDED, _STOPPING = StepState.RUNNING, StepState.SUSPENDED, StepState.STOPPING
_EMPTYING, _EPILOG, _HELD, _COMPLETED, _LEAVING = (
    StepState.EMPTYING,
    StepState.EPILOG,
    StepState.HELD,
    StepState.COMPLETED,
    StepState.LEAVING,
)

_BEGIN_HOOK = (Effect.RECORD_HOOK_BEGUN, Effect.RUN_HOOK)
_END = (Effect.RECORD_EXIT_OBSERVED, Effect.REAP_LEADER, Effect.TELL_ENDED)
_STOP = (Effect.RECORD_TERMINATING, Effect.WALK_PLAN)
_PROLOG_FAILED = Move(_EMPTYING, (Effect.RECORD_HOOK_COMPLETED, *_END, Effect.WALK_PLAN))


def _to(state: StepState, *effects: Effect) -> Handler:
    answer = Move(state, effects)
    return lambda _: answer


def _succeed(facts: Facts) -> Move:
    if facts.prolog_left:
        return Move(_PROLOG, (Effect.BIND, Effect.INHERIT, Effect.LOWER, *_BEGIN_HOOK))
    return Move(_EMPTYING, (Effect.BIND, Effect.INHERIT, Effect.TELL_ENDED, Effect.LOWER, Effect.WALK_PLAN))


def _launch(facts: Facts) -> Move:
    if facts.has_leader:
        return Move(_STARTING, (Effect.SPAWN_LEADER,))
    return Move(_RUNNING, (Effect.TELL_STARTED, Effect.LOWER))


def _start(facts: Facts) -> Move:
    return Move(_PROLOG, _BEGIN_HOOK) if facts.has_prolog else _launch(facts)


def _prolog_passed(facts: Facts) -> Move:
    if facts.prolog_left:
        return _PROLOG_FAILED
    launched = _launch(facts)
    return Move(launched.state, (Effect.RECORD_HOOK_COMPLETED, *launched.effects))


def _terminate(facts: Facts) -> Move:
    """The step without a leader ends when it is told to."""
    return Move(_STOPPING, _STOP) if facts.has_leader else Move(_EMPTYING, (*_END, Effect.WALK_PLAN))


def _empty(facts: Facts) -> Move:
    if facts.has_epilog:
        return Move(_EPILOG, (Effect.RECORD_EMPTIED, *_BEGIN_HOOK))
    return Move(_COMPLETED, (Effect.RECORD_EMPTIED, Effect.TELL_COMPLETED))


_NOT_STARTED = _to(_EMPTYING, *_END, Effect.WALK_PLAN)
_ABANDON = _to(_EMPTYING, Effect.ABANDON_LEADER, *_END, Effect.WALK_PLAN)
_ENDED = _to(_EMPTYING, *_END, Effect.WALK_PLAN)
_COMPLETE = _to(_COMPLETED, Effect.RECORD_HOOK_COMPLETED, Effect.TELL_COMPLETED)
_LEAVE = _to(_LEAVING, Effect.LEAVE)

_LISTED: dict[StepState, dict[StepEvent, Handler]] = {
    _NEW: {
        StepEvent.BEGIN: _to(_READY, Effect.BIND, Effect.MAKE_CGROUP, Effect.DESCRIBE, Effect.SAY_READY),
        StepEvent.SUCCEED: _succeed,
        StepEvent.GAVE_UP: _NOT_STARTED,
    },
    _READY: {
        StepEvent.START: _start,
        StepEvent.GAVE_UP: _NOT_STARTED,
        StepEvent.START_OVERDUE: _NOT_STARTED,
        StepEvent.TERMINATE: _NOT_STARTED,
    },
    _PROLOG: {
        StepEvent.HOOK_PASSED: _prolog_passed,
        StepEvent.HOOK_FAILED: lambda _: _PROLOG_FAILED,
        StepEvent.GAVE_UP: _NOT_STARTED,
        StepEvent.TERMINATE: _to(_PROLOG, Effect.END_HOOK),
    },
    _STARTING: {
        StepEvent.AT_GATE: _to(_OPENING, Effect.HAND_OVER, Effect.DESCRIBE_LEADER, Effect.RECORD_GATE_OPENING, Effect.OPEN_GATE),
        StepEvent.GAVE_UP: _ABANDON,
        StepEvent.LEADER_ENDED: _ENDED,
        StepEvent.TERMINATE: _ABANDON,
    },
    _OPENING: {
        StepEvent.EXECUTED: _to(_RUNNING, Effect.RECORD_LAUNCHED, Effect.TELL_STARTED, Effect.LOWER),
        StepEvent.GAVE_UP: _ABANDON,
        StepEvent.LEADER_ENDED: _ENDED,
        StepEvent.TERMINATE: _to(_STOPPING, *_STOP),
    },
    _RUNNING: {
        StepEvent.LEADER_ENDED: _ENDED,
        StepEvent.SIGNAL: _to(_RUNNING),
        StepEvent.SUSPEND: _to(_SUSPENDED, Effect.FREEZE),
        StepEvent.TERMINATE: _terminate,
    },
    _SUSPENDED: {
        StepEvent.LEADER_ENDED: _ENDED,
        StepEvent.SIGNAL: _to(_SUSPENDED),
        StepEvent.RESUME: _to(_RUNNING, Effect.THAW),
        StepEvent.TERMINATE: _terminate,
    },
    _STOPPING: {
        StepEvent.EXECUTED: _to(_STOPPING, Effect.RECORD_LAUNCHED, Effect.LOWER),
        StepEvent.LEADER_ENDED: _to(_EMPTYING, *_END),
        StepEvent.SIGNAL: _to(_STOPPING),
        StepEvent.TERMINATE: _to(_STOPPING, Effect.WALK_PLAN),
        StepEvent.UNENDABLE: _to(_STOPPING, Effect.TELL_HELD),
    },
    _EMPTYING: {
        StepEvent.EMPTY: _empty,
        StepEvent.SIGNAL: _to(_EMPTYING),
        StepEvent.TERMINATE: _to(_EMPTYING, Effect.WALK_PLAN),
        StepEvent.UNENDABLE: _to(_HELD, Effect.TELL_HELD),
    },
    _HELD: {
        StepEvent.EMPTY: _empty,
        StepEvent.SIGNAL: _to(_HELD),
        StepEvent.LINGER_OVER: _LEAVE,
        StepEvent.TERMINATE: _to(_EMPTYING, Effect.WALK_PLAN),
    },
    _EPILOG: {
        StepEvent.HOOK_PASSED: _COMPLETE,
        StepEvent.HOOK_FAILED: _COMPLETE,
    },
    _COMPLETED: {
        StepEvent.ACKNOWLEDGE: _to(_LEAVING, Effect.RECORD_ACKNOWLEDGED, Effect.LEAVE),
        StepEvent.LINGER_OVER: _LEAVE,
        StepEvent.TERMINATE: _LEAVE,
    },
    _LEAVING: {},
}


def _stay(state: StepState) -> Handler:
    answer = Move(state)
    return lambda _: answer


TABLE: dict[tuple[StepState, StepEvent], Handler | None] = {
    (state, event): _LISTED[state].get(event, None if event in REQUESTS else _stay(state))
    for state in StepState
    for event in StepEvent
}
"""Every pair. None: the request is refused there."""


def move(state: StepState, event: StepEvent, facts: Facts) -> Move | None:
    """Where `event` leads from `state`; None where it is refused."""
    handler = TABLE[state, event]
    return None if handler is None else handler(facts)
