"""Jobs that a node has, and a queue that was lost or restored from a backup knows nothing of. Bodies of transactions."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from spurproc.agent.controller.local.queue import take_number
from spurproc.agent.controller.local.records import CancelRequest, JobState
from spurproc.agent.jobs.job_spec import JobSpec, RequeuePolicy
from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode

__all__ = ["FoundJob", "jobs_missing", "take_up"]

_NOT_KNOWN = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job as its node knows it, which runs this attempt of it, or owes its report."""

    attempt: AttemptId
    uid: int
    accepted_at: float
    spec: JobSpec | None
    """What it is, or what can be told of it; None: nothing can."""
    request: ResourceRequest | None
    """None where it is not known whole: it is never run again by that, but held where somebody puts it back."""
    cancel: CancelRequest | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Of its user and its own."""
        return (str(self.uid), f"job-{self.attempt.job_id}") if self.spec is None else (self.spec.user, self.spec.name)


def jobs_missing(connection: sqlite3.Connection, seen: Iterable[AttemptId]) -> frozenset[int]:
    """The ids of jobs that are not there."""
    query = "SELECT 1 FROM jobs WHERE job_id = ?"
    job_ids = {attempt.job_id for attempt in seen}
    return frozenset(job_id for job_id in job_ids if connection.execute(query, (job_id,)).fetchone() is None)


def take_up(connection: sqlite3.Connection, found: Iterable[FoundJob]) -> None:
    """Each is dispatched, in the name of its user: its end will be taken, and whoever waits for it is told."""
    for job in found:
        _insert(connection, "jobs", _job_values(connection, job))
        _insert(
            connection,
            "attempts",
            {
                "job_id": job.attempt.job_id,
                "run_attempt": job.attempt.run_attempt,
                "dispatched_at": job.accepted_at,
                "cancel": None if job.cancel is None else encode(job.cancel),
            },
        )


def _job_values(connection: sqlite3.Connection, job: FoundJob) -> dict[str, object]:
    user, name = job.names
    content = _NOT_KNOWN if job.spec is None else encode(job.spec)
    return {
        "job_id": job.attempt.job_id,
        "run_attempt": job.attempt.run_attempt,
        "state": JobState.DISPATCHED.value,
        "place": take_number(connection, "place"),
        "uid": job.uid,
        "user": user,
        "name": name,
        "submitted_by": job.uid,
        "submitted_at": job.accepted_at,
        "digest": hashlib.sha256(content).digest(),
        "requeue_on_fault": job.spec is not None and job.spec.requeue is RequeuePolicy.ON_NODE_FAULT,
        "request": _NOT_KNOWN if job.request is None else encode(job.request),
        "spec": content,
    }


def _insert(connection: sqlite3.Connection, table: str, values: dict[str, object]) -> None:
    """One that is there stays as it is."""
    places = ", ".join("?" * len(values))
    connection.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places}) ON CONFLICT DO NOTHING",
        tuple(values.values()),
    )
