"""How jobs leave the nodes again: cancelled, reported, put back. Bodies of transactions."""

from __future__ import annotations

import enum
import errno
import sqlite3
from dataclasses import dataclass, replace

from spurproc.agent.controller.link import Acknowledged, AttemptReport, RefusedForGood
from spurproc.agent.controller.local.queue import (
    end_in_queue,
    find_job,
    last_number,
    place_of,
    put_back,
    take_number,
)
from spurproc.agent.controller.local.records import (
    ATTEMPT_COLUMNS,
    AttemptRecord,
    CancelRequest,
    JobRecord,
    JobState,
    attempt_record,
)
from spurproc.agent.store.mark import Mark
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.errors import AlreadyGone, Busy, InvalidArgument, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = [
    "CancelAnswer",
    "OtherAttempt",
    "Reported",
    "Requeued",
    "attempts_of",
    "cancel",
    "check_job_id",
    "find_attempt",
    "never_taken",
    "report",
    "requeue",
]

_FAULTS_LAST = 5
"""As often a job is put back by itself: one that brings every node down is not tried for ever."""


class OtherAttempt(SpurprocError):
    """The attempt that was named is not the one that counts; nothing was done."""

    def __init__(self, named: AttemptId, counts: AttemptId | None = None) -> None:
        now = "" if counts is None else f", it is {counts.run_attempt}"
        super().__init__(f"cannot do that to attempt {named}: it is not the one that counts any more{now}; nothing was done")


class CancelAnswer(enum.Enum):
    """What came of a request to cancel."""

    ENDED_IN_QUEUE = "ended in the queue"
    """It never ran, and never will."""
    ASKED = "asked"
    """Its node is told until it has it; how it really ends is told by the report."""
    OVER = "over"
    """It had ended before."""
    OTHER_ATTEMPT = "another attempt"
    """The attempt that was named is not the one that counts; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What came of a report. `over`: the job is; `queued`: its next attempt, where it was put back."""

    answer: Acknowledged | RefusedForGood
    over: bool = False
    queued: AttemptId | None = None
    mark: Mark | None = None
    """How far the queue has come by it; None: no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """What came of a request to run a job again. `now`: it is in the queue; else once its attempt has ended."""

    attempt: AttemptId
    now: bool


def cancel(connection: sqlite3.Connection, job_id: int, run_attempt: int | None, request: CancelRequest) -> CancelAnswer:
    """End a job, wherever it is; `run_attempt` None: whichever counts. The first request stands. Raises AlreadyGone."""
    job = find_job(connection, job_id)
    if run_attempt is not None and run_attempt != job.run_attempt:
        return CancelAnswer.OTHER_ATTEMPT
    if job.state is JobState.ENDED:
        return CancelAnswer.OVER
    if end_in_queue(connection, job.attempt, request):
        return CancelAnswer.ENDED_IN_QUEUE
    _ask_to_end(connection, job.attempt, request)
    connection.execute("UPDATE jobs SET requeue_wanted = 0 WHERE job_id = ?", (job_id,))
    return CancelAnswer.ASKED


def requeue(connection: sqlite3.Connection, job_id: int, run_attempt: int | None, request: CancelRequest) -> Requeued:
    """Run it once more, as a new attempt; one that runs is ended first. `run_attempt` None: whichever counts.

    Raises AlreadyGone, OtherAttempt, and Busy where it is queued.
    """
    job = find_job(connection, job_id)
    if run_attempt is not None and run_attempt != job.run_attempt:
        raise OtherAttempt(AttemptId(job_id, run_attempt), job.attempt)
    match job.state:
        case JobState.QUEUED:
            raise Busy(errno.EBUSY, f"cannot requeue job {job_id}: it is in the queue")
        case JobState.DISPATCHED:
            _ask_to_end(connection, job.attempt, request)
            connection.execute("UPDATE jobs SET requeue_wanted = 1 WHERE job_id = ?", (job_id,))
            return Requeued(attempt=AttemptId(job_id, job.run_attempt + 1), now=False)
        case JobState.HELD:
            return Requeued(attempt=_let_go(connection, job), now=True)
        case JobState.ENDED:
            return Requeued(attempt=put_back(connection, job, keeps_place=False), now=True)


def _let_go(connection: sqlite3.Connection, job: JobRecord) -> AttemptId:
    """One that was held before it was dispatched is the same attempt still."""
    if find_attempt(connection, job.attempt) is not None:
        return put_back(connection, job, keeps_place=False)
    connection.execute("UPDATE jobs SET state = 'queued', held_because = NULL WHERE job_id = ?", (job.job_id,))
    return job.attempt


def _ask_to_end(connection: sqlite3.Connection, attempt: AttemptId, request: CancelRequest) -> None:
    connection.execute(
        "UPDATE attempts SET cancel = coalesce(cancel, ?) WHERE job_id = ? AND run_attempt = ?",
        (encode(request), attempt.job_id, attempt.run_attempt),
    )


def report(connection: sqlite3.Connection, told: AttemptReport, *, at: float) -> Reported:
    """Apply it if it is of the attempt that counts, and that has not ended. One that was applied is acknowledged again."""
    try:
        job = find_job(connection, told.attempt.job_id)
    except AlreadyGone as error:
        return Reported(answer=RefusedForGood(why=str(error)))
    known = find_attempt(connection, told.attempt)
    if known is not None and known.reported:
        repeated = _repeated(connection, known, told, at, over=job.state is JobState.ENDED)
        return replace(repeated, mark=_mark(connection, job))
    if told.attempt != job.attempt or job.state is not JobState.DISPATCHED or known is None:
        return Reported(answer=RefusedForGood(why=_why_not(job, told.attempt)))
    _write_report(connection, told, at)
    take_number(connection, "report")
    mark = _mark(connection, job)
    return replace(_applied(connection, job, known, told), mark=mark)


def never_taken(attempt: AttemptId) -> AttemptReport:
    """What becomes of one that is to end, and was dispatched to a node that has not got it."""
    end = ExitInfo.not_started("QUEUE", 0, reason="it was cancelled before its node had it", source=ExitSource.NONE)
    return AttemptReport(attempt=attempt, end=end, cancelled=True)


def _mark(connection: sqlite3.Connection, job: JobRecord) -> Mark:
    """As far as the queue has come with this one."""
    return Mark(reports=last_number(connection, "report"), place=place_of(connection, job.job_id), job_id=job.job_id)


def _why_not(job: JobRecord, attempt: AttemptId) -> str:
    return f"attempt {attempt} was not dispatched: job {job.job_id} is {job.state.value}, as attempt {job.run_attempt}"


def _repeated(connection: sqlite3.Connection, known: AttemptRecord, told: AttemptReport, at: float, *, over: bool) -> Reported:
    """Its acknowledgement was lost. The first report that can be read counts; one that says something else is kept beside it."""
    if known.report is None:
        _write_report(connection, told, at)
    elif encode(known.report) != encode(told) and known.other_report is None:
        connection.execute(
            "UPDATE attempts SET other_report = ? WHERE job_id = ? AND run_attempt = ?",
            (encode(told), told.attempt.job_id, told.attempt.run_attempt),
        )
    return Reported(answer=Acknowledged(), over=over)


def _write_report(connection: sqlite3.Connection, told: AttemptReport, at: float) -> None:
    connection.execute(
        "UPDATE attempts SET report = ?, reported_at = ? WHERE job_id = ? AND run_attempt = ?",
        (encode(told), at, told.attempt.job_id, told.attempt.run_attempt),
    )


def _applied(connection: sqlite3.Connection, job: JobRecord, known: AttemptRecord, told: AttemptReport) -> Reported:
    if job.requeue_wanted:
        return Reported(answer=Acknowledged(), queued=put_back(connection, job, keeps_place=False))
    if told.node_fault is not None and not known.cancelled and _tried_again(connection, job):
        return Reported(answer=Acknowledged(), queued=put_back(connection, job, keeps_place=True))
    connection.execute("UPDATE jobs SET state = ? WHERE job_id = ?", (JobState.ENDED.value, job.job_id))
    return Reported(answer=Acknowledged(), over=True)


def _tried_again(connection: sqlite3.Connection, job: JobRecord) -> bool:
    fields = connection.execute("SELECT requeue_on_fault FROM jobs WHERE job_id = ?", (job.job_id,)).fetchone()
    faults = [one for one in attempts_of(connection, job.job_id) if one.report is not None and one.report.node_fault is not None]
    return bool(fields[0]) and len(faults) <= _FAULTS_LAST


def find_attempt(connection: sqlite3.Connection, attempt: AttemptId) -> AttemptRecord | None:
    """None for one that was neither dispatched nor ended."""
    query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job_id = ? AND run_attempt = ?"
    fields = connection.execute(query, (attempt.job_id, attempt.run_attempt)).fetchone()
    return None if fields is None else attempt_record(fields)


def attempts_of(connection: sqlite3.Connection, job_id: int) -> tuple[AttemptRecord, ...]:
    """Its history, in order."""
    query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE job_id = ? ORDER BY run_attempt"
    return tuple(attempt_record(fields) for fields in connection.execute(query, (job_id,)))


def check_job_id(job_id: int) -> None:
    """Raises InvalidArgument for what is no id."""
    if not 1 <= job_id < 2**63:
        raise InvalidArgument(f"job_id: {job_id!r:.100} is no id")
