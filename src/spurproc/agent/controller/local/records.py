"""Jobs and their attempts as the built-in controller has them, for who asks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.store.column import plain_in, record_in
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId

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

T = TypeVar("T")

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
    damaged: str | None = None
    """What of its row cannot be read."""

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
    damage: Mapping[str, str]
    """Columns that cannot be read, and why: there is something in them all the same."""

    @property
    def cancelled(self) -> bool:
        """Whether anybody has asked for its end."""
        return self.cancel is not None or "cancel" in self.damage

    @property
    def reported(self) -> bool:
        """Whether its end was told."""
        return self.report is not None or "report" in self.damage


JOB_COLUMNS = (
    "job_id, run_attempt, state, held_because, uid, user, name, submitted_by, submitted_at, submission_key,"
    " requeue_wanted, request"
)
ATTEMPT_COLUMNS = "job_id, run_attempt, dispatched_at, cancel, report, reported_at, other_report"


class _Row:
    """The columns of one row, as far as they can be read; `damage`: of those that cannot, why."""

    def __init__(self, columns: str, fields: tuple[Any, ...], what: str) -> None:
        self.values: dict[str, Any] = dict(zip(columns.split(", "), fields, strict=True))
        self.damage: dict[str, str] = {}
        self._where = f"{WHERE}, {what}"

    def plain(self, name: str, kind: Any, instead: Any) -> Any:
        """A number or a text; `instead` where it is none."""
        return self._read(name, partial(plain_in, kind=kind), instead)

    def record(self, name: str, kind: type[T]) -> T | None:
        """None where there is none, or none that can be read."""
        return None if self.values[name] is None else self._read(name, partial(record_in, kind=kind), None)

    def _read(self, name: str, read: Callable[..., Any], instead: Any) -> Any:
        try:
            return read(self.values[name], where=f"{self._where}, {name}")
        except RecordInvalid as error:
            self.damage[name] = str(error)
            return instead


def job_record(fields: tuple[Any, ...]) -> JobRecord:
    """From the `JOB_COLUMNS` of a row. Whose it is not known is root's."""
    row = _Row(JOB_COLUMNS, fields, f"job {fields[0]}")
    request = row.record("request", ResourceRequest)
    row.damage.pop("request", None)  # said where it would be next
    return JobRecord(
        job_id=row.values["job_id"],
        run_attempt=row.values["run_attempt"],
        state=JobState(row.values["state"]),
        held_because=row.plain("held_because", str | None, None),
        uid=row.plain("uid", int, 0),
        user=row.plain("user", str, "?"),
        name=row.plain("name", str, "?"),
        submitted_by=row.plain("submitted_by", int, 0),
        submitted_at=row.plain("submitted_at", float, 0.0),
        submission_key=row.plain("submission_key", str | None, None),
        requeue_wanted=bool(row.values["requeue_wanted"]),
        request=request,
        damaged="; ".join(row.damage.values()) or None,
    )


def attempt_record(fields: tuple[Any, ...]) -> AttemptRecord:
    """From the `ATTEMPT_COLUMNS` of a row."""
    attempt = AttemptId(fields[0], fields[1])
    row = _Row(ATTEMPT_COLUMNS, fields, f"attempt {attempt}")
    return AttemptRecord(
        attempt=attempt,
        dispatched_at=row.plain("dispatched_at", float | None, None),
        cancel=row.record("cancel", CancelRequest),
        report=row.record("report", AttemptReport),
        reported_at=row.plain("reported_at", float | None, None),
        other_report=row.record("other_report", AttemptReport),
        damage=row.damage,
    )
