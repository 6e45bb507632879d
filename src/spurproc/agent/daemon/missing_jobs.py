"""At a start: the jobs that this node has, and its own queue knows nothing of, as the node knows them."""

from __future__ import annotations

from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.recovered import recovered_spec
from spurproc.agent.attempts.step import spec_for
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.found import FoundJob
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import CancelRequest
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["missing_jobs"]


async def missing_jobs(
    around: Surroundings, attempts: Attempts, controller: LocalController, known: set[AttemptId]
) -> list[FoundJob]:
    """Those of which it knows nothing, and whose report it has to take: what another controller has given is none of its jobs."""
    if not isinstance(around.link, LocalLink):
        return []
    missing = await controller.jobs_missing(known)
    counts = [one for one in attempts if one.id.job_id in missing and not one.reported and one.displaced_by is None]
    for one in counts:
        around.log.warning("the queue knew nothing of it", attempt=str(one.id))
    return [await _found(around, one) for one in counts]


async def _found(around: Surroundings, attempt: Attempt) -> FoundJob:
    """By the agent's store, else by its step, which tells too little to run it again."""
    recovered = await around.blocking.run(recovered_spec, around, attempt.id)
    spec = await _stored(around, attempt) or recovered
    intent = attempt.cancel
    return FoundJob(
        attempt=attempt.id,
        uid=attempt.uid if spec is None else spec.uid,
        accepted_at=attempt.accepted_at or around.clock(),
        spec=spec,
        request=None if spec is None or spec == recovered else spec.resources,
        cancel=None if intent is None or intent.uid is None else CancelRequest(uid=intent.uid, why=intent.why, at=intent.at),
    )


async def _stored(around: Surroundings, attempt: Attempt) -> JobSpec | None:
    with suppress(SpurprocError):
        return await spec_for(around, attempt)
    return None
