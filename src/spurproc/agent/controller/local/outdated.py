"""A queue that is older than what has run since: one that was restored from a backup. Bodies of transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable

from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.controller.local.ending import find_attempt
from spurproc.agent.controller.local.queue import find_job, last_number, raise_floor
from spurproc.agent.controller.local.records import JobRecord, JobState
from spurproc.agent.store.mark import Mark
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import AlreadyGone
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = ["settle_outdated", "take_over"]

_WHY = "the queue is older than what has run since, and nothing else tells of it: whether it ran nobody knows"


def take_over(connection: sqlite3.Connection, seen: Iterable[AttemptId], *, at: float) -> tuple[AttemptId, ...]:
    """What has run counts, whatever the queue says: a database restored from a backup is older than its nodes.

    No id that was seen is given again; a job that is queued, or stands at an earlier attempt, is dispatched as the one seen. What
    is left without an end becomes UNKNOWN. Returns what was changed.
    """
    changed = []
    for attempt in sorted(seen):
        raise_floor(connection, attempt.job_id)
        try:
            job = find_job(connection, attempt.job_id)
        except AlreadyGone:
            continue
        if attempt > job.attempt or (attempt == job.attempt and job.state in (JobState.QUEUED, JobState.HELD)):
            _put_forward(connection, job, attempt, at)
            changed.append(attempt)
    return tuple(changed)


def _put_forward(connection: sqlite3.Connection, job: JobRecord, attempt: AttemptId, at: float) -> None:
    earlier = find_attempt(connection, job.attempt)
    if attempt != job.attempt and earlier is not None and not earlier.reported:
        why = f"attempt {attempt} has been run since, and nobody knows of this one's end"
        _report_unknown(connection, job.attempt, why, at)
    connection.execute(
        "UPDATE jobs SET state = ?, run_attempt = ?, held_because = NULL WHERE job_id = ?",
        (JobState.DISPATCHED.value, attempt.run_attempt, attempt.job_id),
    )
    connection.execute(
        "INSERT INTO attempts (job_id, run_attempt) VALUES (?, ?) ON CONFLICT DO NOTHING", (attempt.job_id, attempt.run_attempt)
    )


def settle_outdated(connection: sqlite3.Connection, mark: Mark, known: Container[AttemptId], *, at: float) -> list[AttemptId]:
    """End, as UNKNOWN, what it would dispatch though it may have run: up to the place of the last job that was reported.

    `known`: those that the node knows of, which says itself what becomes of them. No id and no place is given again. Returns what
    was ended; nothing where the queue is as young as its mark. A job behind that place has never ended before.
    """
    if mark.reports <= last_number(connection, "report"):
        return []
    query = "SELECT job_id, run_attempt FROM jobs WHERE state = 'dispatched' OR (state = 'queued' AND place <= ?) ORDER BY job_id"
    found = [AttemptId(*fields) for fields in connection.execute(query, (mark.place,)).fetchall()]
    settled = [attempt for attempt in found if attempt not in known]
    for attempt in settled:
        _report_unknown(connection, attempt, _WHY, at)
        connection.execute("UPDATE jobs SET state = ? WHERE job_id = ?", (JobState.ENDED.value, attempt.job_id))
    for counter, last in (("report", mark.reports), ("place", mark.place), ("job", mark.job_id)):
        connection.execute("UPDATE counters SET next = max(next, ?) WHERE name = ?", (last + 1, counter))
    return settled


def _report_unknown(connection: sqlite3.Connection, attempt: AttemptId, why: str, at: float) -> None:
    report = AttemptReport(attempt=attempt, end=ExitInfo.unknown(why))
    connection.execute(
        "INSERT INTO attempts (job_id, run_attempt, report, reported_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET report = excluded.report, reported_at = excluded.reported_at",
        (attempt.job_id, attempt.run_attempt, encode(report), at),
    )
