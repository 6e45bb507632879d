"""Which jobs there are, for who asks. Bodies of transactions."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from spurproc.agent.controller.link import Cancel
from spurproc.agent.controller.local.records import JOB_COLUMNS, WHERE, CancelRequest, JobRecord, JobState, job_record
from spurproc.agent.store.column import record_in
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId

__all__ = ["JobFilter", "cancels", "dispatched", "forget", "jobs"]

_PAGE = 1000
_DAY_S = 86400.0
_FORGOTTEN_AT_ONCE = 4
"""For each report: more than come, and so few that no report waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which of them. `uid`: of that user, None: of all. `before`: with a lower id, for the next page of at most `limit`."""

    uid: int | None = None
    states: tuple[JobState, ...] = tuple(JobState)
    before: int | None = None
    limit: int = _PAGE


def jobs(connection: sqlite3.Connection, which: JobFilter) -> tuple[JobRecord, ...]:
    """The latest first."""
    marks = ", ".join("?" * len(which.states))
    conditions, values = [f"state IN ({marks})"], [state.value for state in which.states]
    numbers = [
        (condition, value) for condition, value in (("uid = ?", which.uid), ("job_id < ?", which.before)) if value is not None
    ]
    where = " AND ".join([*conditions, *(condition for condition, _ in numbers)])
    query = f"SELECT {JOB_COLUMNS} FROM jobs WHERE {where} ORDER BY job_id DESC LIMIT ?"
    rows = connection.execute(query, (*values, *(value for _, value in numbers), max(0, min(which.limit, _PAGE))))
    return tuple(job_record(fields) for fields in rows)


def forget(connection: sqlite3.Connection, *, kept: int, at: float) -> None:
    """The oldest jobs, a few at once, that stand more than `kept` jobs back and have ended a day ago or earlier. A write."""
    query = (
        "SELECT job_id FROM (SELECT job_id FROM jobs WHERE state = 'ended'"
        " AND job_id < (SELECT next FROM counters WHERE name = 'job') - ? ORDER BY job_id LIMIT ?) AS oldest"
        " WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.job_id = oldest.job_id AND reported_at > ?)"
    )
    for fields in connection.execute(query, (kept, _FORGOTTEN_AT_ONCE, at - _DAY_S)).fetchall():
        connection.execute("DELETE FROM attempts WHERE job_id = ?", fields)
        connection.execute("DELETE FROM jobs WHERE job_id = ?", fields)


def dispatched(connection: sqlite3.Connection) -> tuple[AttemptId, ...]:
    """What belongs to a node, in the order of the queue."""
    query = "SELECT job_id, run_attempt FROM jobs WHERE state = 'dispatched' ORDER BY place"
    return tuple(AttemptId(job_id, run_attempt) for job_id, run_attempt in connection.execute(query))


def cancels(connection: sqlite3.Connection) -> tuple[Cancel, ...]:
    """The requests to end what belongs to a node. One that cannot be read is one all the same."""
    query = (
        "SELECT job_id, run_attempt, cancel FROM jobs JOIN attempts USING (job_id, run_attempt)"
        " WHERE state = 'dispatched' AND cancel IS NOT NULL ORDER BY job_id"
    )
    return tuple(_cancel(*fields) for fields in connection.execute(query))


def _cancel(job_id: int, run_attempt: int, content: object) -> Cancel:
    attempt = AttemptId(job_id, run_attempt)
    try:
        request = record_in(content, CancelRequest, f"{WHERE}, attempt {attempt}, cancel")
    except RecordInvalid as error:
        return Cancel(attempt=attempt, why=f"somebody has asked for it: {error}")
    return Cancel(attempt=attempt, uid=request.uid, why=request.why)
