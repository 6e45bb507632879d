"""Attempts of which nothing is owed any more: given out again they are not run again, and what was told of them is told again."""

from __future__ import annotations

import asyncio
from functools import partial

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.reporting import told
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.tasks import Spawn
from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.store.finished import JOBS_KEPT, load_finished, report_of
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import AlreadyGone, RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode

__all__ = ["Finished"]

_FORGOTTEN_AT = 1000
"""So many are known to have been asked for more than once."""


class Finished:
    """Those that the store remembers."""

    def __init__(self, around: Surroundings, spawn: Spawn) -> None:
        """`spawn` goes on with something beside everything else."""
        self._around = around
        self._spawn = spawn
        self._last: dict[int, int] = {}
        self._answering: set[AttemptId] = set()
        self._pauses: dict[AttemptId, BackOff] = {}
        """Before another answer: who takes none is answered ever less often."""

    async def load(self) -> None:
        """At a start."""
        self._last = await self._around.database.read(load_finished)

    def add(self, attempt: AttemptId) -> None:
        """It is over, and the store says so."""
        latest = max(attempt.run_attempt, self._last.pop(attempt.job_id, 0))
        self._last[attempt.job_id] = latest
        while len(self._last) > JOBS_KEPT:
            del self._last[next(iter(self._last))]

    def covers(self, attempt: AttemptId) -> bool:
        """Whether it, or a later one of its job, is over."""
        return attempt.run_attempt <= self._last.get(attempt.job_id, 0)

    def later_than(self, attempt: AttemptId) -> AttemptId | None:
        """The latest one of its job that is over, if that is a later one."""
        latest = self._last.get(attempt.job_id, 0)
        return AttemptId(attempt.job_id, latest) if latest > attempt.run_attempt else None

    def last_job(self, most: int) -> int:
        """The highest id up to `most`; 0: there is none."""
        return max((job_id for job_id in self._last if job_id <= most), default=0)

    def is_answering(self, attempt: AttemptId) -> bool:
        """Whether that is about to be told again."""
        return attempt in self._answering

    def tell_again(self, attempt: AttemptId, spec: JobSpec) -> None:
        """What was told of it, if it ran this; of one before the latest of its job nobody knows that any more."""
        self._answering.add(attempt)
        self._spawn(Attempt(id=attempt, allocation=None, accepted_at=0.0, uid=0), partial(self._tell, spec))

    async def _tell(self, spec: JobSpec, attempt: Attempt) -> None:
        try:
            content = await self._around.database.read(partial(report_of, attempt=attempt.id, spec=spec))
            report = decode(content, AttemptReport, f"the report of attempt {attempt.id}")
        except (AlreadyGone, RecordInvalid) as error:
            why = f"it, or a later attempt of its job, was run: {error}"
            report = AttemptReport(attempt=attempt.id, end=ExitInfo.unknown(why))
        self._around.log.warning("given out again", attempt=str(attempt.id), end=str(report.end))
        await self._pause(attempt.id)
        await told(self._around, report)
        self._answering.discard(attempt.id)

    async def _pause(self, attempt: AttemptId) -> None:
        if attempt in self._pauses:
            await asyncio.sleep(self._pauses[attempt].next_s())
            return
        if len(self._pauses) >= _FORGOTTEN_AT:
            self._pauses.clear()
        self._pauses[attempt] = BackOff()
