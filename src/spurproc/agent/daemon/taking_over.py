"""At a start: what was found on the node counts, whatever the queue says; what is left of attempts that neither knows goes."""

from __future__ import annotations

from functools import partial

from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.leftovers import sweep_hooks
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.found import FoundJob
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.queue import COUNTED_LAST
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.daemon.missing_jobs import missing_jobs
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["take_over"]


async def take_over(around: Surroundings, attempts: Attempts, controller: LocalController, seen: set[AttemptId]) -> None:
    """`seen`: what has a step folder. Nobody is given work, and no end is reported, before it returns."""
    known = {*seen, *(attempt.id for attempt in attempts)}
    last_job = attempts.finished.last_job(COUNTED_LAST)
    if last_job:
        await controller.floor(last_job)
    await _tell_the_queue(around, controller, known, await missing_jobs(around, attempts, controller, known))
    await sweep_hooks(around, known, partial(_may_come, around, controller))


async def _tell_the_queue(
    around: Surroundings, controller: LocalController, known: set[AttemptId], missing: list[FoundJob]
) -> None:
    """What was taken on, and what has run, whatever it says itself."""
    for attempt in await controller.take_over(known, missing):
        around.log.warning("the queue is older than what was taken on", attempt=str(attempt))
    settled = await controller.settle_outdated(known)
    if settled:
        around.problems["queue"] = f"the queue was older than what has run: {len(settled)} jobs have an unknown end by that"
        around.log.warning("the queue is older than what has run", settled=[str(attempt) for attempt in settled])


async def _may_come(around: Surroundings, controller: LocalController, attempt: AttemptId) -> bool:
    """Whether it may be dispatched, as far as this node can tell: another controller than its own may give out anything."""
    if not isinstance(around.link, LocalLink):
        return True
    try:
        job = await controller.job(attempt.job_id)
    except AlreadyGone:
        return False
    except SpurprocError:  # it cannot be read just now
        return True
    return job.attempt == attempt and job.state is not JobState.ENDED
