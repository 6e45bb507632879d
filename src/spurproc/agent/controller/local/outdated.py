"""A queue that is older than what has run since: one that was restored from a backup. Bodies of transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Container

from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.controller.local.queue import last_number
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.store.mark import Mark
from spurproc.core.exit_info import ExitInfo
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = ["settle_outdated"]

_WHY = "the queue is older than what has run since, and nothing else tells of it: whether it ran nobody knows"


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
        _end(connection, attempt, at)
    for counter, last in (("report", mark.reports), ("place", mark.place), ("job", mark.job_id)):
        connection.execute("UPDATE counters SET next = max(next, ?) WHERE name = ?", (last + 1, counter))
    return settled


def _end(connection: sqlite3.Connection, attempt: AttemptId, at: float) -> None:
    report = AttemptReport(attempt=attempt, end=ExitInfo.unknown(_WHY))
    connection.execute(
        "INSERT INTO attempts (job_id, run_attempt, report, reported_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET report = excluded.report, reported_at = excluded.reported_at",
        (attempt.job_id, attempt.run_attempt, encode(report), at),
    )
    connection.execute("UPDATE jobs SET state = ? WHERE job_id = ?", (JobState.ENDED.value, attempt.job_id))
