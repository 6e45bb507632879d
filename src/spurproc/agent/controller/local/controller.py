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

from spurproc.agent.controller.link import AttemptReport, Cancel, NodeView
from spurproc.agent.controller.local import ending, history, queue
from spurproc.agent.controller.local.books import Books
from spurproc.agent.controller.local.ending import CancelAnswer, Reported, Requeued
from spurproc.agent.controller.local.outdated import settle_outdated
from spurproc.agent.controller.local.queue import Head, Submission, Submitted
from spurproc.agent.controller.local.records import CancelRequest, JobRecord
from spurproc.agent.controller.local.schema import CONTROLLER_SCHEMA
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.fit import shortages_of
from spurproc.agent.resources.refusal import Shortage
from spurproc.agent.store.database import Database
from spurproc.agent.store.mark import MarkFile
from spurproc.agent.store.transaction import Failpoint
from spurproc.errors import Busy, InvalidArgument, RecordInvalid, Unsupported
from spurproc.proto.attempt_id import AttemptId

__all__ = ["LocalController"]

_KEY_LAST = 256
_HISTORY_JOBS = 100_000


class LocalController(Books):
    """The queue of one node. All is durable before it is answered; who may do what, its caller has to know.

    Used from one event loop. Owns its database.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        mark: MarkFile | None = None,
        history_jobs: int = _HISTORY_JOBS,
    ) -> None:
        """Takes `database`. See `open`."""
        super().__init__(database)
        self._history_jobs = history_jobs
        self._mark = mark
        self._clock = clock
        self._head: Head | None = None
        self._head_known = False
        self.totals: Inventory | None = None
        """What the node has in all, once it is registered."""
        self.orders = asyncio.Event()
        """Set when there may be something new for the node."""
        self.unheld: dict[AttemptId, None] = {}
        """What was dispatched, and the node has not shown that it has."""
        self.unheeded: dict[AttemptId, Cancel] = {}
        """What is to end, and the node has not shown that it knows."""
        self.insisted: set[AttemptId] = set()
        """Those of them that somebody has asked for since it was said last, whether or not the node knows."""

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        failpoint: Failpoint | None = None,
        mark: MarkFile | None = None,
        history_jobs: int = _HISTORY_JOBS,
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

    async def take_over(self, seen: Iterable[AttemptId]) -> tuple[AttemptId, ...]:
        """What the node has taken on or run counts, whatever the queue says. Before work is taken. Returns what it changed."""
        attempts = tuple(seen)
        changed = await self._database.write(lambda connection: ending.take_over(connection, attempts, at=self._clock()))
        await self._load()  # an attempt before the one seen is no order any more
        return changed

    async def settle_outdated(self, known: Container[AttemptId]) -> list[AttemptId]:
        """End what an older copy of the queue would have run again. After `take_over`. Returns what that was."""
        if self._mark is None:
            return []
        mark = self._mark.mark
        settled = await self._database.write(lambda connection: settle_outdated(connection, mark, known, at=self._clock()))
        await self._load()
        return settled

    async def stuck(self) -> tuple[JobRecord, tuple[Shortage, ...]] | None:
        """The job that holds up all others, and what it lacks, where the node as it is by now can never run it."""
        head = await self.next_head()
        if head is None or self.totals is None:
            return None
        shortages = shortages_of(head.request, self.totals, self.totals)
        return (await self.job(head.attempt.job_id), shortages) if shortages else None

    # Its side of the link.

    async def next_head(self) -> Head | None:
        """What is next in the queue. One that cannot be read is held, and stops no other."""
        while not self._head_known:
            self._head_known = True
            await self._see(await self._database.read(queue.head))
        return self._head

    async def _see(self, found: Head | queue.Unreadable | None) -> None:
        """What was the next when it was read; whoever has changed the queue since says so after us."""
        if isinstance(found, queue.Unreadable):
            await self._hold(found.job_id, found.why)
        else:
            self._head = found

    async def dispatch(self, attempt: AttemptId) -> JobSpec | None:
        """It belongs to the node now. None where it is in the queue no more."""
        self._forget_head()
        try:
            spec, following = await self._database.write(lambda connection: queue.dispatch(connection, attempt, at=self._clock()))
        except RecordInvalid as error:
            await self._hold(attempt.job_id, str(error))
            return None
        if spec is not None:
            self.unheld[attempt] = None
        self._head_known = True
        await self._see(following)
        return spec

    async def dispatch_again(self, attempt: AttemptId, free: NodeView) -> JobSpec | None:
        """What was dispatched, for a node that has not got it.

        None for what is no order any more: it is to end, and does so here; it does not fit by now, and goes back into the queue;
        it cannot be read, and is held.
        """
        try:
            spec = await self._database.read(lambda connection: queue.dispatched_spec(connection, attempt))
        except RecordInvalid as error:
            await self._hold(attempt.job_id, str(error))
            spec = None
        if spec is None:
            self.unheld.pop(attempt, None)
        elif attempt in self.unheeded:
            await self.report(ending.never_taken(attempt))
        elif free.fits(spec.resources):
            return spec
        elif await self._database.write(lambda connection: queue.take_back(connection, attempt)):
            self.unheld.pop(attempt, None)
            self._forget_head()
        return None

    async def _hold(self, job_id: int, why: str) -> None:
        await self._database.write(lambda connection: queue.hold(connection, job_id, why))
        self._forget_head()

    async def report(self, report: AttemptReport) -> Reported:
        """What became of an attempt."""
        at = self._clock()

        def body(connection: sqlite3.Connection) -> Reported:
            history.forget(connection, kept=self._history_jobs, at=at)
            return ending.report(connection, report, at=at)

        done = await self._database.write(body)
        if self._mark is not None and done.mark is not None:
            self._mark.raise_to(done.mark)
        self.unheld.pop(report.attempt, None)
        self.unheeded.pop(report.attempt, None)
        self.insisted.discard(report.attempt)
        if done.queued is not None:
            self._tell()
        if done.over:
            self.wake(report.attempt.job_id)
        return done

    async def next_generation(self) -> int:
        """One more registration than ever before."""
        return await self._database.write(lambda connection: queue.take_number(connection, "generation"))

    def _tell(self) -> None:
        self._forget_head()
        self.orders.set()

    def _forget_head(self) -> None:
        self._head, self._head_known = None, False
