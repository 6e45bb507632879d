"""The built-in controller: what users ask of it, and its side of the link to this node."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, Self

from spurproc.agent.controller.link import Cancel
from spurproc.agent.controller.local import ending, found, history, outdated, queue
from spurproc.agent.controller.local.ending import CancelAnswer, Requeued
from spurproc.agent.controller.local.found import FoundJob
from spurproc.agent.controller.local.orders import HISTORY_JOBS, Orders
from spurproc.agent.controller.local.queue import Head, Submission, Submitted
from spurproc.agent.controller.local.records import CancelRequest, JobRecord
from spurproc.agent.controller.local.schema import CONTROLLER_SCHEMA
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.fit import shortages_of
from spurproc.agent.resources.refusal import Shortage
from spurproc.agent.store.database import Database
from spurproc.agent.store.mark import MarkFile
from spurproc.agent.store.transaction import Failpoint
from spurproc.errors import Busy, InvalidArgument, Unsupported
from spurproc.proto.attempt_id import AttemptId

__all__ = ["LocalController"]

_KEY_LAST = 256


class LocalController(Orders):
    """The queue of one node. All is durable before it is answered; who may do what, its caller has to know.

    Used from one event loop. Owns its database.
    """

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        failpoint: Failpoint | None = None,
        mark: MarkFile | None = None,
        history_jobs: int = HISTORY_JOBS,
        may_write: Callable[[], None] | None = None,
    ) -> Self:
        """Open the queue at `path`, or make it. `may_write`, and what it raises: as `Database.open`.

        `mark`: tells an older copy of it; borrowed. `history_jobs`: what is further back is forgotten once it has ended.
        """
        options: dict[str, Any] = {} if failpoint is None else {"failpoint": failpoint}
        if may_write is not None:
            options["may_write"] = may_write
        database = await asyncio.to_thread(partial(Database.open, path, CONTROLLER_SCHEMA, **options))
        controller = cls(database, clock=clock, mark=mark, history_jobs=history_jobs)
        await controller._load()
        return controller

    async def _load(self) -> None:
        self.unheld = dict.fromkeys(await self._database.read(history.dispatched))
        self.unheeded = {one.attempt: one for one in await self._database.read(history.cancels)}
        self._tell()

    async def close(self) -> None:
        """Once all is durable that was accepted. May be called twice."""
        await self._database.close()

    # What users ask for.

    async def submit(self, spec: JobSpec, *, submitted_by: int, key: str | None = None) -> Submitted:
        """Put it into the queue; once for each key of `submitted_by`.

        Raises InvalidArgument for a key that was used for something else, Unsupported for what this node could never run, Busy
        before the node is registered.
        """
        if key is not None and not (key.isprintable() and 1 <= len(key) <= _KEY_LAST):
            raise InvalidArgument(f"key: {key!r:.100} is not 1 to {_KEY_LAST} printable characters")
        self._check_fits(spec)
        submission = Submission(spec=spec, submitted_by=submitted_by, key=key, at=self._clock())
        submitted, head = await self._database.write(
            lambda connection: (queue.submit(connection, submission), queue.head(connection))
        )
        if self._head is None:  # else it stands behind it, and changes nothing for the node
            self._tell()
            if isinstance(head, Head):
                self._head, self._head_known = head, True
        return submitted

    def _check_fits(self, spec: JobSpec) -> None:
        if self.totals is None:
            raise Busy(errno.EAGAIN, "cannot submit a job: the node is not registered yet")
        shortages = shortages_of(spec.resources, self.totals, self.totals)
        if shortages:
            raise Unsupported(f"cannot submit the job: it never fits this node: {'; '.join(map(str, shortages))}")

    async def cancel(self, job_id: int, *, run_attempt: int | None = None, uid: int | None = None, why: str = "") -> CancelAnswer:
        """End it: at once where it is queued, else its node is told. Raises AlreadyGone for a job that is not there."""
        ending.check_job_id(job_id)
        request = CancelRequest(uid=uid, why=why, at=self._clock())
        answer, cancels = await self._database.write(
            lambda connection: (ending.cancel(connection, job_id, run_attempt, request), history.cancels(connection))
        )
        self._renew_cancels(job_id, cancels, asked=answer is CancelAnswer.ASKED)
        if answer is CancelAnswer.ENDED_IN_QUEUE:
            self.wake(job_id)
        return answer

    async def requeue(
        self, job_id: int, *, run_attempt: int | None = None, uid: int | None = None, why: str = "requeued"
    ) -> Requeued:
        """Run it once more, as a new attempt; one that runs is ended first. `run_attempt` None: whichever counts.

        Raises AlreadyGone, OtherAttempt, and Busy where it is queued.
        """
        ending.check_job_id(job_id)
        request = CancelRequest(uid=uid, why=why, at=self._clock())
        requeued, cancels = await self._database.write(
            lambda connection: (ending.requeue(connection, job_id, run_attempt, request), history.cancels(connection))
        )
        self._renew_cancels(job_id, cancels, asked=not requeued.now)
        return requeued

    def _renew_cancels(self, job_id: int, cancels: tuple[Cancel, ...], *, asked: bool) -> None:
        for one in cancels:
            if one.attempt.job_id == job_id:
                self.unheeded[one.attempt] = one
                if asked:
                    self.insisted.add(one.attempt)
        self._tell()

    async def floor(self, job_id: int) -> None:
        """Give no id at or below this one from now on: step folders show that it was used."""
        ending.check_job_id(job_id)
        await self._database.write(lambda connection: queue.raise_floor(connection, job_id))

    async def jobs_missing(self, seen: Iterable[AttemptId]) -> frozenset[int]:
        """The ids of jobs of which the queue knows nothing."""
        attempts = tuple(seen)
        return await self._database.read(lambda connection: found.jobs_missing(connection, attempts))

    async def take_over(self, seen: Iterable[AttemptId], jobs: Iterable[FoundJob] = ()) -> tuple[AttemptId, ...]:
        """What the node has taken on or run counts, whatever the queue says. Before work is taken. Returns what it changed.

        `jobs`: those of them that are missing here.
        """
        attempts, missing = tuple(seen), tuple(jobs)

        def body(connection: sqlite3.Connection) -> tuple[AttemptId, ...]:
            found.take_up(connection, missing)
            return outdated.take_over(connection, attempts, at=self._clock())

        changed = await self._database.write(body)
        await self._load()  # an attempt before the one seen is no order any more
        return changed

    async def settle_outdated(self, known: Container[AttemptId]) -> list[AttemptId]:
        """End what an older copy of the queue would have run again. After `take_over`. Returns what that was."""
        if self._mark is None:
            return []
        mark = self._mark.mark
        settled = await self._database.write(
            lambda connection: outdated.settle_outdated(connection, mark, known, at=self._clock())
        )
        await self._load()
        return settled

    async def stuck(self) -> tuple[JobRecord, tuple[Shortage, ...]] | None:
        """The job that holds up all others, and what it lacks, where the node as it is by now can never run it."""
        head = await self.next_head()
        if head is None or self.totals is None:
            return None
        shortages = shortages_of(head.request, self.totals, self.totals)
        return (await self.job(head.attempt.job_id), shortages) if shortages else None
