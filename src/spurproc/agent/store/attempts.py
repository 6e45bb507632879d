"""What becomes durable about an attempt. Each function is the body of one transaction of the agent's store."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import suppress
from typing import Any, TypeVar

from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store.attempt_row import (
    COLUMNS,
    NOT_KNOWN,
    AttemptRow,
    AttemptState,
    CancelIntent,
    DamagedRow,
    Obligation,
    row_of,
)
from spurproc.agent.store.column import record_in
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import AlreadyGone, InvalidArgument, RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = [
    "accept",
    "discharge",
    "find",
    "forget",
    "hold",
    "intend_cancel",
    "load_all",
    "note_launch",
    "note_refusal",
    "record_end",
    "set_state",
    "spec_of",
    "take_up",
]

T = TypeVar("T")

_WHERE = "the agent's store"
_ONE = "WHERE job_id = ? AND run_attempt = ?"
_OWES_NOTHING = " AND ".join(f"{obligation.value} IS NOT NULL" for obligation in Obligation)


def accept(connection: sqlite3.Connection, attempt: AttemptId, spec: JobSpec, allocation: Allocation, *, at: float) -> bool:
    """Take it on, with what it was given. False, and nothing is changed, where it was taken on before."""
    done = connection.execute(
        "INSERT INTO attempts (job_id, run_attempt, state, accepted_at, uid, allocation, spec) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (*_key(attempt), AttemptState.ACCEPTED.value, at, spec.uid, encode(allocation), encode(spec)),
    )
    return done.rowcount == 1


def take_up(connection: sqlite3.Connection, attempt: AttemptId, spec: JobSpec | None, *, uid: int, at: float) -> None:
    """One of which nobody knows what it was given, and that is over: from here on its end and what it owes are durable.

    `spec` None: nor what it was. Nothing is changed where it has a row.
    """
    connection.execute(
        "INSERT INTO attempts (job_id, run_attempt, state, accepted_at, uid, launched, allocation, spec)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*_key(attempt), AttemptState.HELD.value, at, uid, b"", NOT_KNOWN, NOT_KNOWN if spec is None else encode(spec)),
    )


def load_all(connection: sqlite3.Connection) -> tuple[list[AttemptRow], list[DamagedRow]]:
    """All that are not forgotten, in order; and those that cannot be read, apart."""
    rows, damaged = [], []
    for fields in connection.execute(f"SELECT {COLUMNS} FROM attempts ORDER BY job_id, run_attempt"):
        try:
            rows.append(row_of(fields, _WHERE))
        except RecordInvalid as error:
            damaged.append(DamagedRow(attempt=AttemptId(fields[0], fields[1]), why=str(error)))
    return rows, damaged


def find(connection: sqlite3.Connection, attempt: AttemptId) -> AttemptRow | None:
    """As it stands; None for one that was never taken on, or is forgotten. Raises RecordInvalid."""
    fields = connection.execute(f"SELECT {COLUMNS} FROM attempts {_ONE}", _key(attempt)).fetchone()
    return None if fields is None else row_of(fields, _WHERE)


def spec_of(connection: sqlite3.Connection, attempt: AttemptId) -> JobSpec:
    """What it runs. Raises AlreadyGone, RecordInvalid."""
    return record_in(_column(connection, attempt, "spec"), JobSpec, f"{_WHERE}, attempt {attempt}, spec")


def set_state(connection: sqlite3.Connection, attempt: AttemptId, state: AttemptState) -> None:
    """Where its life stands; it is held no more. Raises AlreadyGone for one that is not there."""
    _update(connection, attempt, "state = ?, held_because = NULL", state.value)


def note_launch(connection: sqlite3.Connection, attempt: AttemptId, descriptor: bytes) -> None:
    """Something of it may run from here on, so that it is never launched again; and by what that is found. The first counts."""
    _update(connection, attempt, "launched = coalesce(launched, ?)", descriptor)


def hold(connection: sqlite3.Connection, attempt: AttemptId, why: str) -> None:
    """Keep it, and all that it was given, until somebody can say more."""
    _update(connection, attempt, "state = ?, held_because = ?", AttemptState.HELD.value, why)


def intend_cancel(connection: sqlite3.Connection, attempt: AttemptId, intent: CancelIntent) -> CancelIntent:
    """That it shall end. The first intent that can be read counts; a later one may add that it is given up. Returns the sum."""
    known = _known(connection, attempt, "cancel", CancelIntent)
    counts = intent if known is None else intent.after(known)
    if counts != known:
        _update(connection, attempt, "cancel = ?", encode(counts))
    return counts


def record_end(
    connection: sqlite3.Connection,
    attempt: AttemptId,
    end: ExitInfo,
    *,
    started_at: float | None = None,
    node_fault: str | None = None,
) -> ExitInfo:
    """How it ended, and with it what its report will say. The first end that can be read counts, and is what is returned."""
    known = _known(connection, attempt, "end", ExitInfo)
    if known is None:
        _update(connection, attempt, "started_at = ?, node_fault = ?, end = ?", started_at, node_fault, encode(end))
    return known or end


def discharge(connection: sqlite3.Connection, attempt: AttemptId, obligation: Obligation, outcome: str) -> bool:
    """That it is owed no more, and how that came. False where it was discharged before: the first outcome stays."""
    name = obligation.value
    change = f"UPDATE attempts SET {name} = ? {_ONE} AND {name} IS NULL"
    if connection.execute(change, (outcome, *_key(attempt))).rowcount == 1:
        return True
    _column(connection, attempt, name)
    return False


def note_refusal(connection: sqlite3.Connection, attempt: AttemptId, why: str) -> int:
    """Its report was refused for good, and why; it stays owed. How many times by now."""
    _update(connection, attempt, "report_refusals = report_refusals + 1, report_refused_because = ?", why)
    return int(_column(connection, attempt, "report_refusals"))


def forget(connection: sqlite3.Connection, attempt: AttemptId) -> None:
    """Remove it. Raises InvalidArgument where something is still owed; one that is not there is fine."""
    if connection.execute(f"DELETE FROM attempts {_ONE} AND {_OWES_NOTHING}", _key(attempt)).rowcount == 1:
        return
    row = find(connection, attempt)
    if row is not None:
        owed = ", ".join(obligation.value for obligation in row.owed)
        raise InvalidArgument(f"cannot forget attempt {attempt}: it still owes {owed}")


def _key(attempt: AttemptId) -> tuple[int, int]:
    return attempt.job_id, attempt.run_attempt


def _update(connection: sqlite3.Connection, attempt: AttemptId, change: str, *values: object) -> None:
    done = connection.execute(f"UPDATE attempts SET {change} {_ONE}", (*values, *_key(attempt)))
    if done.rowcount != 1:
        raise _missing(attempt)


def _column(connection: sqlite3.Connection, attempt: AttemptId, name: str) -> Any:
    fields = connection.execute(f"SELECT {name} FROM attempts {_ONE}", _key(attempt)).fetchone()
    if fields is None:
        raise _missing(attempt)
    return fields[0]


def _known(connection: sqlite3.Connection, attempt: AttemptId, name: str, kind: type[T]) -> T | None:
    value = _column(connection, attempt, name)
    with suppress(RecordInvalid):
        return None if value is None else record_in(value, kind, f"{_WHERE}, attempt {attempt}, {name}")
    return None


def _missing(attempt: AttemptId) -> AlreadyGone:
    return AlreadyGone(errno.ENOENT, f"cannot find attempt {attempt} in {_WHERE}: it was forgotten, or never taken on")
