"""The last attempts of which nothing is owed any more, and what was told of them. Each function is the body of a transaction.

Who gave one out and is not sure that it was taken may give it out again, later than anything else tells of it.
"""

from __future__ import annotations

import errno
import sqlite3

from spurproc.agent.store.column import plain_in
from spurproc.errors import AlreadyGone
from spurproc.proto.attempt_id import AttemptId

__all__ = ["JOBS_KEPT", "load_finished", "remember", "report_of"]

JOBS_KEPT = 10_000


def remember(connection: sqlite3.Connection, attempt: AttemptId, report: bytes) -> None:
    """It is over, and this is what was told of it. Of each job the latest attempt is kept; of jobs those that were over last."""
    job_id, run_attempt = attempt.job_id, attempt.run_attempt
    connection.execute(
        "INSERT OR REPLACE INTO finished (job_id, run_attempt, report)"
        " SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM finished WHERE job_id = ? AND run_attempt > ?)",
        (job_id, run_attempt, report, job_id, run_attempt),
    )
    connection.execute("DELETE FROM finished WHERE number <= (SELECT max(number) FROM finished) - ?", (JOBS_KEPT,))


def load_finished(connection: sqlite3.Connection) -> list[AttemptId]:
    """All that are kept, the latest last."""
    return [AttemptId(*fields) for fields in connection.execute("SELECT job_id, run_attempt FROM finished ORDER BY number")]


def report_of(connection: sqlite3.Connection, attempt: AttemptId) -> bytes:
    """What was told of it. Raises AlreadyGone, RecordInvalid."""
    query = "SELECT report FROM finished WHERE job_id = ? AND run_attempt = ?"
    fields = connection.execute(query, (attempt.job_id, attempt.run_attempt)).fetchone()
    if fields is None:
        raise AlreadyGone(errno.ENOENT, f"nobody knows any more how attempt {attempt} ended")
    content: bytes = plain_in(fields[0], bytes, f"the agent's store, finished attempt {attempt}, report")
    return content
