"""The queue: what comes in, in which order it goes out, and what leaves it otherwise. Bodies of transactions."""

from __future__ import annotations

import errno
import hashlib
import sqlite3
from dataclasses import dataclass

from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.controller.local.records import JOB_COLUMNS, WHERE, CancelRequest, JobRecord, JobState, job_record
from spurproc.agent.jobs.job_spec import JobSpec, RequeuePolicy
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.store.column import record_in
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.errors import AlreadyGone, InvalidArgument, Unsupported
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = [
    "COUNTED_LAST",
    "Head",
    "Submission",
    "Submitted",
    "Unreadable",
    "dispatch",
    "dispatched_spec",
    "end_in_queue",
    "find_job",
    "head",
    "hold",
    "last_number",
    "place_of",
    "put_back",
    "raise_floor",
    "spec_of",
    "submit",
    "take_back",
    "take_number",
]

_JOB_LAST = 2**63 - 2
COUNTED_LAST = 2**62
"""No queue counts so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is to be put into the queue. `key`: of all submissions by `submitted_by` with the same key there is one job."""

    spec: JobSpec
    submitted_by: int
    key: str | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The job; `repeated`: it is there since an earlier submission with the same key."""

    job_id: int
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is next."""

    attempt: AttemptId
    request: ResourceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """What is next, were it readable; and why it is not."""

    job_id: int
    why: str


def submit(connection: sqlite3.Connection, submission: Submission) -> Submitted:
    """Put it at the end of the queue. Raises InvalidArgument where its key belongs to a job with another content."""
    content = encode(submission.spec)
    digest = hashlib.sha256(content).digest()
    known = _by_key(connection, submission, digest)
    if known is not None:
        return Submitted(job_id=known, repeated=True)
    job_id = take_number(connection, "job")
    spec = submission.spec
    values = {
        "job_id": job_id,
        "run_attempt": 1,
        "state": JobState.QUEUED.value,
        "place": take_number(connection, "place"),
        "uid": spec.uid,
        "user": spec.user,
        "name": spec.name,
        "submitted_by": submission.submitted_by,
        "submitted_at": submission.at,
        "submission_key": submission.key,
        "digest": digest,
        "requeue_on_fault": spec.requeue is RequeuePolicy.ON_NODE_FAULT,
        "request": encode(spec.resources),
        "spec": content,
    }
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO jobs ({', '.join(values)}) VALUES ({places})", tuple(values.values()))
    return Submitted(job_id=job_id, repeated=False)


def _by_key(connection: sqlite3.Connection, submission: Submission, digest: bytes) -> int | None:
    if submission.key is None:
        return None
    found = connection.execute(
        "SELECT job_id, digest FROM jobs WHERE submitted_by = ? AND submission_key = ?", (submission.submitted_by, submission.key)
    ).fetchone()
    if found is None:
        return None
    job_id: int = found[0]
    if found[1] != digest:
        raise InvalidArgument(f"key: {submission.key!r:.100} was used for job {job_id}, which is another one")
    return job_id


def take_number(connection: sqlite3.Connection, counter: str) -> int:
    """The next of that counter; none is given twice."""
    number = last_number(connection, counter) + 1
    if number > _JOB_LAST:
        raise Unsupported(f"cannot count on: the last {counter} is {_JOB_LAST}")
    connection.execute("UPDATE counters SET next = ? WHERE name = ?", (number + 1, counter))
    return number


def last_number(connection: sqlite3.Connection, counter: str) -> int:
    """The last that was taken of that counter; 0 before the first."""
    return int(connection.execute("SELECT next FROM counters WHERE name = ?", (counter,)).fetchone()[0]) - 1


def raise_floor(connection: sqlite3.Connection, job_id: int) -> None:
    """No job gets this id, or one below, from now on. One that no queue counts so far to is somebody else's, and no bound."""
    if job_id > COUNTED_LAST:
        return
    connection.execute("UPDATE counters SET next = ? WHERE name = 'job' AND next <= ?", (job_id + 1, job_id))


def find_job(connection: sqlite3.Connection, job_id: int) -> JobRecord:
    """Raises AlreadyGone."""
    fields = connection.execute(f"SELECT {JOB_COLUMNS} FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if fields is None:
        raise AlreadyGone(errno.ENOENT, f"cannot find job {job_id}: there is none")
    return job_record(fields)


def place_of(connection: sqlite3.Connection, job_id: int) -> int:
    """Where it stands, or stood, in the order of the queue. For a job that is there."""
    return int(connection.execute("SELECT place FROM jobs WHERE job_id = ?", (job_id,)).fetchone()[0])


def spec_of(connection: sqlite3.Connection, job_id: int) -> JobSpec:
    """What it runs. Raises AlreadyGone, RecordInvalid."""
    fields = connection.execute("SELECT spec FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if fields is None:
        raise AlreadyGone(errno.ENOENT, f"cannot find job {job_id}: there is none")
    return record_in(fields[0], JobSpec, f"{WHERE}, job {job_id}, spec")


def head(connection: sqlite3.Connection) -> Head | Unreadable | None:
    """What is next, whatever it asks for."""
    query = f"SELECT {JOB_COLUMNS} FROM jobs WHERE state = 'queued' ORDER BY place LIMIT 1"
    fields = connection.execute(query).fetchone()
    if fields is None:
        return None
    job = job_record(fields)
    if job.request is None:
        return Unreadable(job_id=job.job_id, why="cannot read which resources it asks for")
    return Head(attempt=job.attempt, request=job.request)


def dispatch(connection: sqlite3.Connection, attempt: AttemptId, *, at: float) -> tuple[JobSpec | None, Head | Unreadable | None]:
    """It belongs to a node now. None where it is in the queue no more, or not as this attempt. And what is next after it.

    Raises RecordInvalid.
    """
    return _dispatched(connection, attempt, at), head(connection)


def _dispatched(connection: sqlite3.Connection, attempt: AttemptId, at: float) -> JobSpec | None:
    if _move(connection, attempt, JobState.QUEUED, JobState.DISPATCHED):
        connection.execute(
            "INSERT INTO attempts (job_id, run_attempt, dispatched_at) VALUES (?, ?, ?)",
            (attempt.job_id, attempt.run_attempt, at),
        )
        return spec_of(connection, attempt.job_id)
    return None


def dispatched_spec(connection: sqlite3.Connection, attempt: AttemptId) -> JobSpec | None:
    """What belongs to a node as this attempt. None where nothing does. Raises RecordInvalid."""
    query = "SELECT 1 FROM jobs WHERE job_id = ? AND run_attempt = ? AND state = 'dispatched'"
    found = connection.execute(query, (attempt.job_id, attempt.run_attempt)).fetchone()
    return None if found is None else spec_of(connection, attempt.job_id)


def take_back(connection: sqlite3.Connection, attempt: AttemptId) -> bool:
    """Back to its place in the queue, as the same attempt, from a node that never got it. False where it is to end, or has."""
    gone = connection.execute(
        "DELETE FROM attempts WHERE job_id = ? AND run_attempt = ? AND cancel IS NULL AND report IS NULL",
        (attempt.job_id, attempt.run_attempt),
    )
    return gone.rowcount == 1 and _move(connection, attempt, JobState.DISPATCHED, JobState.QUEUED)


def hold(connection: sqlite3.Connection, job_id: int, why: str) -> None:
    """Take it out of the queue, or from a node that never got it: it stays as it is, and stops no other. Not what has ended."""
    connection.execute(
        "UPDATE jobs SET state = ?, held_because = ? WHERE job_id = ? AND state IN (?, ?)",
        (JobState.HELD.value, why, job_id, JobState.QUEUED.value, JobState.DISPATCHED.value),
    )


def end_in_queue(connection: sqlite3.Connection, attempt: AttemptId, cancel: CancelRequest) -> bool:
    """Cancel what is not dispatched. Its record says so, and that it never ran. False where it is not there as this attempt."""
    moved = any(_move(connection, attempt, state, JobState.ENDED) for state in (JobState.QUEUED, JobState.HELD))
    if moved:
        end = ExitInfo.not_started("QUEUE", 0, reason="it was cancelled before it was dispatched", source=ExitSource.NONE)
        report = AttemptReport(attempt=attempt, end=end, cancelled=True)
        connection.execute(
            "INSERT OR REPLACE INTO attempts (job_id, run_attempt, cancel, report, reported_at) VALUES (?, ?, ?, ?, ?)",
            (attempt.job_id, attempt.run_attempt, encode(cancel), encode(report), cancel.at),
        )
    return moved


def put_back(connection: sqlite3.Connection, job: JobRecord, *, keeps_place: bool) -> AttemptId:
    """Queue the next attempt of a job whose attempt has ended. `keeps_place`: before all that were submitted after it."""
    connection.execute(
        "UPDATE jobs SET state = ?, run_attempt = ?, held_because = NULL, requeue_wanted = 0 WHERE job_id = ?",
        (JobState.QUEUED.value, job.run_attempt + 1, job.job_id),
    )
    if not keeps_place:
        connection.execute("UPDATE jobs SET place = ? WHERE job_id = ?", (take_number(connection, "place"), job.job_id))
    return AttemptId(job.job_id, job.run_attempt + 1)


def _move(connection: sqlite3.Connection, attempt: AttemptId, state: JobState, to: JobState) -> bool:
    """From one state to another, if it stands there as exactly this attempt."""
    done = connection.execute(
        "UPDATE jobs SET state = ?, held_because = NULL WHERE job_id = ? AND run_attempt = ? AND state = ?",
        (to.value, attempt.job_id, attempt.run_attempt, state.value),
    )
    return done.rowcount == 1
