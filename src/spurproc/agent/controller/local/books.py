"""What the queue and its history say, for who asks; and for who waits for the end of a job."""

from __future__ import annotations

import asyncio

from spurproc.agent.controller.local import ending, history, queue
from spurproc.agent.controller.local.history import JobFilter
from spurproc.agent.controller.local.records import AttemptRecord, JobRecord, JobState
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.store.database import Database

__all__ = ["Books"]


class Books:
    """What is durable of jobs and attempts. Who may see what, its caller has to know."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended: dict[int, list[asyncio.Future[None]]] = {}

    async def job(self, job_id: int) -> JobRecord:
        """As it stands. Raises AlreadyGone."""
        ending.check_job_id(job_id)
        return await self._database.read(lambda connection: queue.find_job(connection, job_id))

    async def spec(self, job_id: int) -> JobSpec:
        """What it runs. Raises AlreadyGone, RecordInvalid."""
        ending.check_job_id(job_id)
        return await self._database.read(lambda connection: queue.spec_of(connection, job_id))

    async def attempts(self, job_id: int) -> tuple[AttemptRecord, ...]:
        """Its history; empty before it was dispatched once."""
        ending.check_job_id(job_id)
        return await self._database.read(lambda connection: ending.attempts_of(connection, job_id))

    async def jobs(self, which: JobFilter | None = None) -> tuple[JobRecord, ...]:
        """The latest first, a page of them."""
        return await self._database.read(lambda connection: history.jobs(connection, which or JobFilter()))

    async def ended(self, job_id: int) -> JobRecord:
        """Return once it has ended: not for an attempt that is put back. Raises AlreadyGone. Cancelling leaks nothing."""
        while True:
            waiter = asyncio.get_running_loop().create_future()
            waiters = self._ended.setdefault(job_id, [])
            waiters.append(waiter)
            try:
                job = await self.job(job_id)  # after we stand in the list: an end in between wakes us
                if job.state is JobState.ENDED:
                    return job
                await waiter
            finally:
                waiters.remove(waiter)
                if not waiters:
                    self._ended.pop(job_id, None)

    def wake(self, job_id: int) -> None:
        """It has ended: who waits for that looks again."""
        for waiter in self._ended.get(job_id, ()):
            if not waiter.done():
                waiter.set_result(None)
