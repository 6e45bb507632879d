"""The desk at which the service asks: what the attempts do, and what only the agent can do to them and to the node."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.draining import lift, set_drain
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.records import HOOK_DRAINS
from spurproc.agent.attempts.step import step_spec
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.registration import Registration
from spurproc.agent.daemon.discretion import drain_view, problems_told
from spurproc.agent.jobs.environment import resource_variables
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.node.limits import not_enforced
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.refusal import Insufficient, NotHeld
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.desk import AttemptNow, Places, Reservation
from spurproc.agent.service.news import JobNews
from spurproc.agent.service.replies import NodeStatus
from spurproc.agent.service.shown import DrainView, HeldView
from spurproc.agent.store.attempt_row import AttemptState
from spurproc.agent.store.drains import OPERATOR, Drain, DrainKind
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, Busy, OwnershipLost, Unsupported
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import RawText, raw_text
from spurproc.version import VERSION

__all__ = ["FrontDesk"]

_REGISTERED_WITHIN_S = 5.0
_RESERVED_FROM = 1 << 62
"""No queue counts so far: a reservation has the key of an attempt in the resource table, and is none."""


class FrontDesk:
    """See `service.desk.Desk`."""

    def __init__(self, around: Surroundings, attempts: Attempts, controller: LocalController, registration: Registration) -> None:
        self._around = around
        self._attempts = attempts
        self._registration = registration
        self._started_at = around.clock()
        self._reservations = itertools.count(_RESERVED_FROM)
        self.node = around.configuration.node_name
        self.controller = controller
        self.news = JobNews()
        self.script_limit_bytes = around.configuration.max_job_script_bytes
        self.output_pattern = around.configuration.output_pattern
        self.kill_plan = around.configuration.kill_plan
        self.time_limit_s = around.configuration.time_limit_s
        self.not_enforced: Mapping[str, str] = not_enforced(find_cgroup_root())

    def tell(self, attempt: AttemptId) -> None:
        """It has moved on."""
        self.news.tell(attempt.job_id)

    async def await_registered(self) -> None:
        """See `Desk`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REGISTERED_WITHIN_S):
                await self._registration.registered.wait()

    def require_owned(self) -> None:
        """See `Desk`. Whoever asks may find the loss first."""
        try:
            self._around.ownership.require()
        except OwnershipLost:
            self._around.lost.set()
            raise

    # Attempts.

    def attempt(self, attempt: AttemptId) -> AttemptNow | None:
        """See `Desk`."""
        known = self._attempts.find(attempt)
        if known is None:
            return None
        return AttemptNow(
            phase=known.state.value,
            held_because=_why_held(known),
            allocation=known.allocation if known.has_claim else None,
            started_at=known.started_at,
            not_enforced=known.not_enforced,
        )

    def places(self, attempt: AttemptId, spec: JobSpec) -> Places:
        """See `Desk`."""
        plan = step_spec(self._around, attempt, Allocation(cpus=(0,)), spec).plan
        assert plan is not None  # noqa: S101 - a script has one
        return Places(work_dir=raw_text(os.fspath(plan.cwd or "/")), stdout=_path(plan.stdout), stderr=_path(plan.stderr))

    async def suspend(self, attempt: AttemptId, *, uid: int) -> None:
        """See `Desk`. Its step is asked whatever was written down: who has thawed it may not have come to say so."""
        known = self._running(attempt, "suspend")
        try:
            await self._turn(known, AttemptEvent.SUSPENDED, uid)
        except Busy as error:
            if error.errno != errno.EBUSY or known.state is not AttemptState.SUSPENDED:
                raise

    async def resume(self, attempt: AttemptId, *, uid: int) -> None:
        """See `Desk`. As `suspend`: where the step says that it is not suspended there is nothing to undo."""
        known = self._running(attempt, "resume")
        try:
            await self._turn(known, AttemptEvent.RESUMED, uid)
        except Busy as error:
            if error.errno != errno.EBUSY:
                raise
            if known.state is AttemptState.SUSPENDED:
                await self._attempts.runner.record(known, AttemptEvent.RESUMED)

    def _running(self, attempt: AttemptId, verb: str) -> Attempt:
        known = self._attempts.find(attempt)
        if known is None:
            raise AlreadyGone(errno.ESRCH, f"cannot {verb} attempt {attempt}: it does not run here")
        if known.state not in (AttemptState.RUNNING, AttemptState.SUSPENDED) or known.step is None:
            raise Busy(errno.EBUSY, f"cannot {verb} attempt {attempt}: it is {known.state.value}")
        return known

    async def _turn(self, known: Attempt, event: AttemptEvent, uid: int) -> None:
        """The step is named by its attempt to the last moment; what it answers counts."""
        self.require_owned()
        assert known.step is not None  # noqa: S101 - asked before
        act = known.step.suspend if event is AttemptEvent.SUSPENDED else known.step.resume
        known.turns += 1
        try:
            await self._around.blocking.run(act)
        finally:
            known.turns += 1
        self._around.log.info(event.value, attempt=str(known.id), by_uid=uid)
        await self._attempts.runner.record(known, event)

    # The node.

    async def drain(self, why: str, *, uid: int) -> bool:
        """See `Desk`."""
        self.require_owned()
        words = why or f"user {uid} wants it"
        return await set_drain(
            self._around, Drain(kind=DrainKind.OPERATOR, cause=OPERATOR, why=words, since=self._around.clock())
        )

    async def undrain(self, *, uid: int) -> bool:
        """See `Desk`. What a failed hook has set is an operator's to lift as well: nothing else tells that the cause is gone."""
        self.require_owned()
        del uid
        theirs = [drain.cause for drain in self._around.drains if drain.kind is DrainKind.OPERATOR]
        lifted = [await lift(self._around, DrainKind.OPERATOR, cause) for cause in theirs]
        lifted += [await lift(self._around, DrainKind.SYSTEM, cause) for cause in HOOK_DRAINS]
        return any(lifted)

    def drains(self, *, sees_all: bool) -> tuple[DrainView, ...]:
        """See `Desk`."""
        return tuple(drain_view(drain, sees_all=sees_all) for drain in self._around.drains)

    def status(self, *, sees_all: bool = True) -> NodeStatus:
        """See `Desk`."""
        resources = self._around.resources
        return NodeStatus(
            node=self.node,
            version=VERSION,
            boot_id=read_boot_id(),
            agent_uid=os.geteuid(),
            started_at=self._started_at,
            registered=self._registration.registered.is_set(),
            totals=resources.inventory,
            free=resources.free,
            missing=resources.missing,
            drains=self.drains(sees_all=sees_all),
            jobs=Counter(attempt.state.value for attempt in self._attempts),
            held=tuple(self._held()),
            not_enforced=self.not_enforced,
            problems=problems_told(self._around.problems, sees_all=sees_all),
        )

    def _held(self) -> list[HeldView]:
        held = ((attempt, _why_held(attempt)) for attempt in self._attempts)
        return [HeldView(attempt=attempt.id, uid=attempt.uid, why=why) for attempt, why in held if why is not None]

    # Bare reservations.

    async def alloc(self, request: ResourceRequest, *, uid: int) -> Reservation:
        """See `Desk`."""
        for drain in self.drains(sees_all=False):
            raise Busy(errno.EBUSY, f"cannot reserve: the node drains: {drain.why}")
        if not self._around.resources.ever_fits(request):
            raise Unsupported(self._why_not(request, never=True))
        if await self.controller.next_head() is not None:
            raise Busy(errno.EBUSY, "cannot reserve: jobs wait in the queue, and come first")
        self.require_owned()
        key = AttemptId(next(self._reservations), 1)
        try:
            allocation = self._around.resources.allocate(key, request, bare=True)
        except Insufficient:
            raise Busy(errno.EBUSY, self._why_not(request)) from None
        self._around.log.info("reserved", reservation=str(key), by_uid=uid, cpus=list(allocation.cpus))
        return Reservation(attempt=key, allocation=allocation, env=resource_variables(allocation))

    def _why_not(self, request: ResourceRequest, *, never: bool = False) -> str:
        short = [one for one in self._around.resources.shortages(request) if not (never and one.ever_met)]
        return f"cannot reserve: {'; '.join(map(str, short))}"

    async def release(self, attempt: AttemptId) -> None:
        """See `Desk`."""
        if attempt.job_id < _RESERVED_FROM:
            raise AlreadyGone(errno.ESRCH, f"cannot release {attempt}: it is no reservation")
        try:
            self._around.resources.release(attempt)
        except NotHeld:
            return
        self._around.log.info("released", reservation=str(attempt))
        self._around.freed.set()
        await asyncio.sleep(0)


def _why_held(attempt: Attempt) -> str | None:
    if attempt.state is AttemptState.HELD:
        return attempt.held_because or "it cannot be told what becomes of it"
    if attempt.refused_because is not None and not attempt.reported:
        return f"it is over, {attempt.end}, and its report was refused: {attempt.refused_because}"
    return attempt.node_fault if attempt.state is AttemptState.ENDING else None  # another holds what it holds


def _path(stream: object) -> RawText | None:
    return raw_text(stream) if isinstance(stream, str | bytes) else None
