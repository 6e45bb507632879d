"""Jobs and their attempts as the built-in controller has them, for who asks."""

from __future__ import annotations

import enum
import sqlite3
from dataclasses import dataclass
from typing import Any

import msgspec

from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.resources.request import ResourceRequest
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode

__all__ = [
    "ATTEMPT_COLUMNS",
    "JOB_COLUMNS",
    "WHERE",
    "AttemptRecord",
    "CancelRequest",
    "JobRecord",
    "JobState",
    "attempt_record",
    "job_record",
]

WHERE = "the queue"


class JobState(enum.Enum):
    """Where a job stands with the controller. What its attempt does just now the agent knows."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    """This attempt belongs to a node, until that reports its end."""
    ENDED = "ended"
    HELD = "held"
    """Not in the queue, and not over: see why. It can be requeued or cancelled."""


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wanted that attempt to end."""

    uid: int | None
    why: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job, without its spec."""

    job_id: int
    run_attempt: int
    state: JobState
    held_because: str | None
    uid: int
    """As whom it runs: whose it is."""
    user: str
    name: str
    submitted_by: int
    submitted_at: float
    submission_key: str | None
    requeue_wanted: bool
    """It is queued again once its attempt has ended."""
    request: ResourceRequest | None
    """None where it cannot be read: such a job is held before it is next."""

    @property
    def attempt(self) -> AttemptId:
        """The one that counts: queued, running, or the last."""
        return AttemptId(self.job_id, self.run_attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt in the history: that it was to be cancelled stands beside how it really ended."""

    attempt: AttemptId
    dispatched_at: float | None
    """None for one that ended in the queue."""
    cancel: CancelRequest | None
    report: AttemptReport | None
    """How it ended, and how that is known; None before that."""
    reported_at: float | None
    other_report: AttemptReport | None
    """A later report that says something else. The first one counts."""


JOB_COLUMNS = (
    "job_id, run_attempt, state, held_because, uid, user, name, submitted_by, submitted_at, submission_key,"
    " requeue_wanted, request"
)
ATTEMPT_COLUMNS = "job_id, run_attempt, dispatched_at, cancel, report, reported_at, other_report"


def _values(columns: str, fields: sqlite3.Row | tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(columns.split(", "), fields, strict=True))


def job_record(fields: tuple[Any, ...]) -> JobRecord:
    """From the `JOB_COLUMNS` of a row."""
    values = _values(JOB_COLUMNS, fields)
    values["state"] = JobState(values["state"])
    values["requeue_wanted"] = bool(values["requeue_wanted"])
    try:
        values["request"] = decode(values["request"], ResourceRequest, WHERE)
    except RecordInvalid:
        values["request"] = None
    return JobRecord(**values)


def attempt_record(fields: tuple[Any, ...]) -> AttemptRecord:
    """From the `ATTEMPT_COLUMNS` of a row. Raises RecordInvalid."""
    values = _values(ATTEMPT_COLUMNS, fields)
    attempt = AttemptId(values.pop("job_id"), values.pop("run_attempt"))
    where = f"{WHERE}, attempt {attempt}"
    for name, kind in (("cancel", CancelRequest), ("report", AttemptReport), ("other_report", AttemptReport)):
        if values[name] is not None:
            values[name] = decode(values[name], kind, where)
    return AttemptRecord(attempt=attempt, **values)
