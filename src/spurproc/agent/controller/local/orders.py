"""What the built-in controller has for its node: the next job, what was dispatched, what is to end; and what was reported."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable

from spurproc.agent.controller.link import AttemptReport, Cancel, NodeView
from spurproc.agent.controller.local import ending, history, queue
from spurproc.agent.controller.local.books import Books
from spurproc.agent.controller.local.ending import Reported
from spurproc.agent.controller.local.queue import Head
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.store.database import Database
from spurproc.agent.store.mark import MarkFile
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId

__all__ = ["HISTORY_JOBS", "Orders"]

HISTORY_JOBS = 100_000


class Orders(Books):
    """The queue's side of the link."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        mark: MarkFile | None = None,
        history_jobs: int = HISTORY_JOBS,
    ) -> None:
        """Takes `database`. `mark` and `history_jobs`: see `LocalController.open`."""
        super().__init__(database)
        self._history_jobs = history_jobs
        self._mark = mark
        self._clock = clock
        self._head: Head | None = None
        self._head_known = False
        self._looking = asyncio.Lock()
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

    async def next_head(self) -> Head | None:
        """What is next in the queue. One that cannot be read is held, and stops no other.

        Who asks while somebody looks waits for that: what is not known yet is no empty queue.
        """
        async with self._looking:
            while not self._head_known:
                self._head_known = True
                try:
                    await self._see(await self._database.read(queue.head))
                except BaseException:
                    self._forget_head()
                    raise
        return self._head

    async def _see(self, found: Head | queue.Unreadable | None) -> None:
        """What was the next when it was read; whoever has changed the queue since says so after us."""
        if isinstance(found, queue.Unreadable):
            self._forget_head()
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
        self.unheld.pop(report.attempt, None)
        self.unheeded.pop(report.attempt, None)
        self.insisted.discard(report.attempt)
        if done.queued is not None:
            self._tell()
        if done.over:
            self.wake(report.attempt.job_id)
        if self._mark is not None and done.mark is not None:  # last: where it cannot be written nobody does the rest again
            self._mark.raise_to(done.mark)
        return done

    async def next_generation(self) -> int:
        """One more registration than ever before."""
        return await self._database.write(lambda connection: queue.take_number(connection, "generation"))

    def _tell(self) -> None:
        self._forget_head()
        self.orders.set()

    def _forget_head(self) -> None:
        self._head, self._head_known = None, False
