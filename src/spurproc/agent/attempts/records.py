"""What each `record` effect makes durable: the body of a transaction, made of what is known when it begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.effect import Effect
from spurproc.agent.store.attempt_row import AttemptState, Obligation
from spurproc.agent.store.attempts import discharge, forget, hold, intend_cancel, note_refusal, record_end, set_state, take_up
from spurproc.agent.store.drains import Drain, DrainKind, add_drain
from spurproc.agent.store.finished import remember
from spurproc.agent.store.node_values import count_report
from spurproc.core.exit_info import ExitInfo
from spurproc.proto.codec import encode

__all__ = ["HOOK_DRAINS", "PATIENT", "RECORDS", "Body", "drain_of", "record"]

PATIENT = frozenset({Effect.RECORD_REPORTED, Effect.RECORD_FORGOTTEN})
"""Nobody waits for these but the attempt itself, which has given everything back: they go along with other commits."""

Body = Callable[[sqlite3.Connection], object]

HOOK_DRAINS = ("prolog", "epilog")
"""The causes of the drains that a hook sets: who lifts the operator's lifts them too."""


def record(attempt: Attempt, effects: tuple[Effect, ...], *, at: float) -> Body | None:
    """All of them, as one body, and where the attempt stands after them.

    None where nothing is to be written: of one without a row its step folder is what is durable, until it has ended.
    """
    bodies = [RECORDS[effect](attempt, at) for effect in effects]
    state = attempt.state
    if not attempt.has_row:
        if Effect.RECORD_END not in effects:
            return None
        bodies = [_row(attempt), *bodies]

    def body(connection: sqlite3.Connection) -> None:
        for each in bodies:
            each(connection)
        if Effect.RECORD_FORGOTTEN not in effects and state is not AttemptState.HELD:
            set_state(connection, attempt.id, state)

    return body


def _row(attempt: Attempt) -> Body:
    spec = attempt.spec
    uid = attempt.uid if spec is None else spec.uid
    return lambda connection: take_up(connection, attempt.id, spec, uid=uid, at=attempt.accepted_at)


def drain_of(attempt: Attempt, cause: str, *, at: float) -> Drain:
    """The node takes nothing new, for this reason."""
    why = f"the {cause} of attempt {attempt.id} failed: {attempt.hook_failure}"
    return Drain(kind=DrainKind.SYSTEM, cause=cause, why=why, since=at)


def _cancel(attempt: Attempt, _: float) -> Body:
    intent = attempt.cancel
    assert intent is not None  # noqa: S101 - whoever posts CANCEL has set it
    return lambda connection: intend_cancel(connection, attempt.id, intent)


def _end(attempt: Attempt, _: float) -> Body:
    end = attempt.end or ExitInfo.unknown("nobody has said how it ended")
    started_at, fault, intent = attempt.started_at, attempt.node_fault, attempt.cancel

    def body(connection: sqlite3.Connection) -> None:
        if intent is not None:  # it may have come when the end was on its way
            intend_cancel(connection, attempt.id, intent)
        record_end(connection, attempt.id, end, started_at=started_at, node_fault=fault)

    return body


def _drain(cause: str) -> Callable[[Attempt, float], Body]:
    def made(attempt: Attempt, at: float) -> Body:
        drain = drain_of(attempt, cause, at=at)
        return lambda connection: add_drain(connection, drain)

    return made


def _discharge(obligation: Obligation, outcome: Callable[[Attempt], str]) -> Callable[[Attempt, float], Body]:
    def made(attempt: Attempt, _: float) -> Body:
        words = outcome(attempt)
        return lambda connection: discharge(connection, attempt.id, obligation, words)

    return made


def _reported(attempt: Attempt, at: float) -> Body:
    outcome = attempt.refused_because or "acknowledged"

    def body(connection: sqlite3.Connection) -> None:
        discharge(connection, attempt.id, Obligation.REPORT, outcome)
        count_report(connection, at=at)

    return body


def _refused(attempt: Attempt, _: float) -> Body:
    why = attempt.refused_because or "no reason was given"
    return lambda connection: note_refusal(connection, attempt.id, why)


def _held(attempt: Attempt, _: float) -> Body:
    why = attempt.held_because or "it cannot be told what becomes of it"
    return lambda connection: hold(connection, attempt.id, why)


def _forgotten(attempt: Attempt, _: float) -> Body:
    report = encode(attempt.report())

    def body(connection: sqlite3.Connection) -> None:
        discharge(connection, attempt.id, Obligation.SPOOL, "removed")
        remember(connection, attempt.id, report)
        forget(connection, attempt.id)

    return body


def _nothing_else(_: Attempt, __: float) -> Body:
    return lambda _: None


RECORDS: dict[Effect, Callable[[Attempt, float], Body]] = {
    Effect.RECORD_STATE: _nothing_else,
    Effect.RECORD_CANCEL: _cancel,
    Effect.RECORD_END: _end,
    Effect.RECORD_PROLOG_FAILED: _drain("prolog"),
    Effect.RECORD_EPILOG: _discharge(Obligation.EPILOG, lambda attempt: attempt.hook_failure or "done"),
    Effect.RECORD_EPILOG_FAILED: _drain("epilog"),
    Effect.RECORD_RELEASED: _discharge(Obligation.RELEASE, lambda _: "released"),
    Effect.RECORD_REPORTED: _reported,
    Effect.RECORD_REFUSED: _refused,
    Effect.RECORD_HELD: _held,
    Effect.RECORD_FORGOTTEN: _forgotten,
}
