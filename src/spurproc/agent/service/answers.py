"""What becomes of each request: who may, then what the controller or the desk says. What is raised the conversation replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.ending import CancelAnswer, OtherAttempt
from spurproc.agent.controller.local.history import JobFilter
from spurproc.agent.controller.local.records import AttemptRecord, JobRecord, JobState
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.script import script_warnings
from spurproc.agent.service.caller import Caller
from spurproc.agent.service.desk import Desk
from spurproc.agent.service.permission import Permission
from spurproc.agent.service.replies import (
    CancelTaken,
    Changed,
    Done,
    Ended,
    JobDetail,
    JobList,
    NodeStatus,
    Reply,
    RequeueTaken,
    Submitted,
)
from spurproc.agent.service.requests import Cancel, Drain, Jobs, Requeue, Resume, Show, Status, Submit, Suspend, Undrain
from spurproc.agent.service.shown import AttemptView, JobView
from spurproc.agent.service.views import attempt_view, job_view, program_view
from spurproc.errors import AlreadyGone, InvalidArgument, RecordInvalid, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import raw_bytes

__all__ = ["Answers"]

_PAGE = 200
_WHY_LAST = 1000
_CHANGES = (Submit, Cancel, Suspend, Resume, Requeue, Drain, Undrain)


class Answers:
    """For all peers. Used from one event loop."""

    def __init__(self, desk: Desk, permission: Permission) -> None:
        self._desk = desk
        self._permission = permission
        self._handlers: dict[type, Callable[[Caller, Any], Awaitable[Reply]]] = {
            Submit: self._submit,
            Jobs: self._jobs,
            Show: self._show,
            Cancel: self._cancel,
            Suspend: self._suspend,
            Resume: self._resume,
            Requeue: self._requeue,
            Drain: self._drain,
            Undrain: self._undrain,
            Status: self._status,
        }

    @property
    def _controller(self) -> LocalController:
        return self._desk.controller

    async def answer(self, caller: Caller, request: object) -> Reply:
        """The reply to a request that has just one. Raises SpurprocError."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise InvalidArgument(f"request: {type(request).__name__} is not expected here")
        if not isinstance(request, _CHANGES):
            return await handler(caller, request)
        self._desk.require_owned()
        reply = await handler(caller, request)
        self._desk.require_owned()  # else somebody is told of what stands in a folder that nobody serves
        return reply

    async def _submit(self, caller: Caller, request: Submit) -> Reply:
        self._permission.check_submission(caller.peer, caller.user, request.spec)
        script = request.spec.script
        if script is not None and len(script) > self._desk.script_limit_bytes:
            raise InvalidArgument(f"script: it has more than {self._desk.script_limit_bytes} bytes")
        await self._desk.await_registered()
        done = await self._controller.submit(request.spec, submitted_by=caller.peer.uid, key=request.key)
        warnings = [*(() if script is None else script_warnings(script)), *self._not_held_to(request.spec), *_lost(request.spec)]
        if not done.repeated:
            warnings += self._waits(caller)
        return Submitted(job_id=done.job_id, repeated=done.repeated, warnings=tuple(warnings))

    def _waits(self, caller: Caller) -> list[str]:
        drains = self._desk.drains(sees_all=self._permission.is_root(caller.peer.uid))
        whys = "; ".join(dict.fromkeys(drain.why or drain.cause for drain in drains))
        return [f"it waits, for the node is drained: {whys}"] if drains else []

    def _not_held_to(self, spec: JobSpec) -> list[str]:
        """What it asks for by itself and gets no limit of: each job has CPUs, and is pinned to them wherever it runs."""
        asked = {"memory": spec.resources.memory_bytes, "pids": spec.pids_max}
        return [why for controller, why in self._desk.not_enforced.items() if asked.get(controller)]

    async def _jobs(self, caller: Caller, request: Jobs) -> Reply:
        self._permission.check_uid_asked(caller.peer.uid, request.uid)
        uid = request.uid
        if uid is None and not self._permission.is_root(caller.peer.uid):
            uid = caller.peer.uid
        limit = max(1, min(request.limit, _PAGE))
        which = JobFilter(uid=uid, states=_states(request.states), before=request.before, limit=limit)
        jobs = await self._controller.jobs(which)
        views = await asyncio.gather(*map(self._view_with_end, jobs))
        return JobList(jobs=tuple(views), more=len(jobs) == limit)

    async def _show(self, caller: Caller, request: Show) -> Reply:
        job = await self.job_of(caller, request.job_id)
        attempts = await self._controller.attempts(job.job_id)
        try:
            spec = await self._controller.spec(job.job_id)
        except RecordInvalid as error:
            views = tuple(self._attempt(one, None) for one in attempts)
            return JobDetail(job=self._view(job), attempts=views, damaged=str(error))
        views = tuple(self._attempt(one, spec) for one in attempts)
        return JobDetail(job=self._view(job), attempts=views, program=program_view(spec))

    async def _cancel(self, caller: Caller, request: Cancel) -> Reply:
        await self._job_at(caller, request.attempt)
        attempt, uid = request.attempt, caller.peer.uid
        why = request.why[:_WHY_LAST]
        answer = await self._controller.cancel(attempt.job_id, run_attempt=attempt.run_attempt, uid=uid, why=why)
        if answer is CancelAnswer.OTHER_ATTEMPT:
            raise OtherAttempt(attempt)
        return CancelTaken(answer=answer.value)

    async def _suspend(self, caller: Caller, request: Suspend) -> Reply:
        await self._job_at(caller, request.attempt)
        await self._desk.suspend(request.attempt, uid=caller.peer.uid)
        return Done()

    async def _resume(self, caller: Caller, request: Resume) -> Reply:
        await self._job_at(caller, request.attempt)
        await self._desk.resume(request.attempt, uid=caller.peer.uid)
        return Done()

    async def _requeue(self, caller: Caller, request: Requeue) -> Reply:
        await self._job_at(caller, request.attempt)
        attempt, uid = request.attempt, caller.peer.uid
        why = request.why[:_WHY_LAST] or "requeued"
        done = await self._controller.requeue(attempt.job_id, run_attempt=attempt.run_attempt, uid=uid, why=why)
        self._desk.news.tell(request.attempt.job_id)
        return RequeueTaken(attempt=done.attempt, now=done.now)

    async def _drain(self, caller: Caller, request: Drain) -> Reply:
        self._permission.check_root(caller.peer.uid, "drain the node")
        return Done(changed=await self._desk.drain(request.why[:_WHY_LAST], uid=caller.peer.uid))

    async def _undrain(self, caller: Caller, _request: Undrain) -> Reply:
        self._permission.check_root(caller.peer.uid, "undrain the node")
        return Done(changed=await self._desk.undrain(uid=caller.peer.uid))

    async def _status(self, caller: Caller, _request: Status) -> Reply:
        status: NodeStatus = self._desk.status(sees_all=self._permission.is_root(caller.peer.uid))
        held = tuple(one for one in status.held if self._permission.sees(caller.peer.uid, one.uid))
        return msgspec.structs.replace(status, held=held, problems=(*status.problems, *await self._stuck(caller)))

    async def _stuck(self, caller: Caller) -> list[str]:
        """Nobody else would say why an idle node starts nothing."""
        try:
            found = await self._controller.stuck()
        except SpurprocError as error:
            return [f"the queue cannot be read: {error}"]
        if found is None:
            return []
        job, shortages = found
        which = f"job {job.job_id}" if self._permission.sees(caller.peer.uid, job.uid) else "another user's job"
        short = "; ".join(f"{one.what}: {one.wanted} wanted, {one.total} there" for one in shortages)
        return [f"{which} is the next in the queue, and the node has not got what it wants by now: {short}"]

    async def job_of(self, caller: Caller, job_id: int) -> JobRecord:
        """A job that the peer may see. Raises AlreadyGone, in the same words whether there is none or it is another user's."""
        try:
            job = await self._controller.job(job_id)
        except AlreadyGone:
            raise self._permission.not_found(caller.peer.uid, job_id) from None
        self._permission.check_sees(caller.peer.uid, job.uid, job_id)
        return job

    async def _job_at(self, caller: Caller, attempt: AttemptId) -> JobRecord:
        job = await self.job_of(caller, attempt.job_id)
        if job.attempt != attempt:
            raise OtherAttempt(attempt, job.attempt)
        return job

    async def standing(self, job_id: int) -> Changed | Ended:
        """How a job stands now. Raises AlreadyGone, RecordInvalid."""
        job = await self._controller.job(job_id)
        if job.state is not JobState.ENDED:
            return Changed(job=self._view(job))
        last = await self._last(job)
        return Ended(job=self._view(job), attempt=None if last is None else self._attempt(last, None))

    def _view(self, job: JobRecord) -> JobView:
        return job_view(job, self._desk.attempt(job.attempt))

    async def _view_with_end(self, job: JobRecord) -> JobView:
        if job.state is not JobState.ENDED:
            return self._view(job)
        return job_view(job, None, await self._last(job))

    async def _last(self, job: JobRecord) -> AttemptRecord | None:
        attempts = await self._controller.attempts(job.job_id)
        return next((one for one in attempts if one.attempt == job.attempt), None)

    def _attempt(self, record: AttemptRecord, spec: JobSpec | None) -> AttemptView:
        places = None if spec is None or spec.reservation else self._desk.places(record.attempt, spec)
        return attempt_view(record, self._desk.attempt(record.attempt), places)


def _lost(spec: JobSpec) -> list[str]:
    """What it writes, and nobody will read."""
    if not spec.wants_scratch or spec.reservation or raw_bytes(spec.stdout).startswith(b"/"):
        return []
    return ["its output is removed with its scratch folder, once it has ended: an absolute path would be kept"]


def _states(words: tuple[str, ...]) -> tuple[JobState, ...]:
    known = {state.value: state for state in JobState}
    for word in words:
        if word not in known:
            raise InvalidArgument(f"states: {word!r:.60} is none of {', '.join(known)}")
    return tuple(known[word] for word in words) or tuple(JobState)
