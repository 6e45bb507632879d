"""Jobs that a node has, and a queue that was lost or restored from a backup knows nothing of."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from spurproc.agent.controller.link import Acknowledged, Dispatch, Nothing
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.found import FoundJob
from spurproc.agent.controller.local.history import JobFilter
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import CancelRequest, JobState
from spurproc.agent.jobs.job_spec import JobSpec, RequeuePolicy
from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, job_spec, node, report_of


def test_a_job_that_only_its_node_knows_is_dispatched_there(tmp_path: Path) -> None:
    """In the name of its user, with who wanted it to end; one that cannot be told whole is never run again."""
    whole, partly, none = (AttemptId(job, 2) for job in (4, 5, 6))
    spec, cancel = job_spec(uid=7, user="u", requeue=RequeuePolicy.ON_NODE_FAULT), CancelRequest(uid=7, why="enough", at=2.0)

    def found(attempt: AttemptId, told: JobSpec | None, request: ResourceRequest | None, **more: Any) -> FoundJob:
        return FoundJob(attempt=attempt, uid=7, accepted_at=1.0, spec=told, request=request, **more)

    async def scene() -> None:
        controller = await LocalController.open(tmp_path / "controller.db")
        link = LocalLink(controller)
        await link.register(node())
        async with AsyncExitStack() as held:
            held.push_async_callback(controller.close)
            seen = (whole, partly, none)
            assert await controller.jobs_missing(seen) == {4, 5, 6}
            jobs = [found(whole, spec, spec.resources, cancel=cancel), found(partly, spec, None), found(none, None, None)]
            for _ in range(2):  # who was killed in between does it again
                assert await controller.take_over(seen, jobs) == ()
            assert await controller.jobs_missing(seen) == frozenset()
            known = await controller.jobs(JobFilter(uid=7, states=(JobState.DISPATCHED,)))
            assert [(job.user, job.name) for job in known] == [("7", "job-6"), ("u", "job"), ("u", "job")]
            assert (await controller.attempts(4))[0].cancel == cancel
            for attempt in seen:
                assert await link.report(report_of(attempt, 3)) == Acknowledged()
                assert (await controller.ended(attempt.job_id)).state is JobState.ENDED
                await controller.requeue(attempt.job_id)
            order = await link.take_work(View())
            assert isinstance(order, Dispatch)
            assert (order.attempt, order.spec) == (AttemptId(4, 3), spec)
            view = View()
            view.held.add(order.attempt)
            assert await link.take_work(view) == Nothing()
            assert [(await controller.job(job)).state for job in (5, 6)] == [JobState.HELD] * 2

    asyncio.run(scene())
