"""The last attempts of which nothing is owed any more, and what was told of them. Each function is the body of a transaction.

Who gave one out and is not sure that it was taken may give it out again, later than anything else tells of it.
"""

from __future__ import annotations

import errno
import hashlib
import sqlite3

from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.store.attempt_row import NOT_KNOWN
from spurproc.agent.store.column import plain_in
from spurproc.errors import AlreadyGone
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = ["JOBS_KEPT", "load_finished", "remember", "report_of"]

JOBS_KEPT = 10_000


def remember(connection: sqlite3.Connection, attempt: AttemptId, report: bytes) -> None:
    """It is over, and this is what was told of it; said while it has its row. Of each job the latest attempt is kept.

    Of jobs those are kept that were over last.
    """
    job_id, run_attempt = attempt.job_id, attempt.run_attempt
    connection.execute(
        "INSERT OR REPLACE INTO finished (job_id, run_attempt, report, spec_digest)"
        " SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM finished WHERE job_id = ? AND run_attempt > ?)",
        (job_id, run_attempt, report, _digest_of_row(connection, attempt), job_id, run_attempt),
    )
    connection.execute("DELETE FROM finished WHERE number <= (SELECT max(number) FROM finished) - ?", (JOBS_KEPT,))


def load_finished(connection: sqlite3.Connection) -> dict[int, int]:
    """The latest attempt of each job that is kept, the last to be over at the end. What is no number stops no start."""
    are_numbers = "typeof(job_id) = 'integer' AND typeof(run_attempt) = 'integer'"
    return dict(connection.execute(f"SELECT job_id, run_attempt FROM finished WHERE {are_numbers} ORDER BY number"))


def report_of(connection: sqlite3.Connection, attempt: AttemptId, spec: JobSpec) -> bytes:
    """What was told of it. Raises AlreadyGone where nobody knows, or `spec` is not what was run, RecordInvalid."""
    query = "SELECT report, spec_digest FROM finished WHERE job_id = ? AND run_attempt = ?"
    fields = connection.execute(query, (attempt.job_id, attempt.run_attempt)).fetchone()
    if fields is None:
        raise AlreadyGone(errno.ENOENT, f"nobody knows any more how attempt {attempt} ended")
    if fields[1] not in (None, _digest(encode(spec))):
        raise AlreadyGone(errno.ESTALE, f"what ended as attempt {attempt} was another job, or is described in other words now")
    content: bytes = plain_in(fields[0], bytes, f"the agent's store, finished attempt {attempt}, report")
    return content


def _digest_of_row(connection: sqlite3.Connection, attempt: AttemptId) -> bytes | None:
    """None where nobody knew what it was to run."""
    query = "SELECT spec FROM attempts WHERE job_id = ? AND run_attempt = ?"
    fields = connection.execute(query, (attempt.job_id, attempt.run_attempt)).fetchone()
    if fields is None or fields[0] == NOT_KNOWN or not isinstance(fields[0], bytes):
        return None
    return _digest(fields[0])


def _digest(spec: bytes) -> bytes:
    return hashlib.blake2b(spec, digest_size=16).digest()
