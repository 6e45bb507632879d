"""The way of an attempt to its step: the prolog of the node, its folders, the launch."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.hooks import HookName, HookNotStarted, hook_begun, hook_plan, run_hook
from spurproc.agent.attempts.lacking import Lacking, may_be_lack
from spurproc.agent.attempts.step import launch_step, prepare, spec_for
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.tasks import Spawn
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.store.attempts import note_launch
from spurproc.core.exit_info import ExitInfo
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import LaunchedBefore, OwnershipLost, SpurprocError, SystemCallError

__all__ = ["Starting"]


class Starting:
    """Carries out the effects up to the launch. `spawn` goes on with something beside everything else."""

    def __init__(
        self,
        around: Surroundings,
        post: Callable[[Attempt, AttemptEvent], None],
        spawn: Spawn,
        lacking: Lacking,
    ) -> None:
        self._around = around
        self._post = post
        self._spawn = spawn
        self._lacking = lacking

    async def begin_prolog(self, attempt: Attempt) -> None:
        """It is told by an event how that ended."""
        attempt.begun = True
        self._spawn(attempt, self._run_prolog)

    async def _run_prolog(self, attempt: Attempt) -> None:
        plan = hook_plan(self._around, HookName.PROLOG, attempt.id, spec=await spec_for(self._around, attempt))
        try:
            attempt.hook_failure = await run_hook(self._around, plan)
        except HookNotStarted as error:
            if not await self._lacking.passes(attempt, error):
                raise
            self._again_or_never(attempt)
            return
        self._lacking.started(attempt)
        if attempt.hook_failure:
            self._never_started(attempt, f"the node's prolog failed: {attempt.hook_failure}", node_fault=True)
        self._post(attempt, AttemptEvent.HOOK_FAILED if attempt.hook_failure else AttemptEvent.HOOK_PASSED)

    def _again_or_never(self, attempt: Attempt) -> None:
        """Nothing has run: told to end meanwhile, it owes nobody an epilog."""
        if attempt.cancel is None or hook_begun(self._around, attempt.id, HookName.PROLOG):
            self._spawn(attempt, self._run_prolog)
            return
        self._lacking.left(attempt)
        attempt.begun = False
        self._post(attempt, AttemptEvent.HOOK_PASSED)

    @staticmethod
    def _never_started(attempt: Attempt, reason: str, *, node_fault: bool, number: int = 0) -> None:
        attempt.end = ExitInfo.not_started(SpawnStage.NONE.name, number, reason=reason)
        attempt.node_fault = reason if node_fault else None

    async def prepare(self, attempt: Attempt) -> None:
        """Its script and its scratch folder."""
        attempt.begun = True
        try:
            await self._prepare(attempt, await spec_for(self._around, attempt))
        except OwnershipLost:
            raise
        except SpurprocError as error:
            if not may_be_lack(error):  # else it is done with the launch, which waits for that
                self._give_up(attempt, error)

    async def _prepare(self, attempt: Attempt, spec: JobSpec) -> None:
        if not attempt.prepared and (spec.script is not None or spec.wants_scratch):
            await self._around.blocking.run(prepare, self._around, attempt.id, spec)
        attempt.prepared = True

    def _give_up(self, attempt: Attempt, error: SpurprocError) -> None:
        """The kernel's refusals are the node's fault, all others the job's."""
        node_fault = isinstance(error, SystemCallError) and error.errno not in (errno.EPERM, errno.EACCES)
        self._never_started(attempt, str(error), node_fault=node_fault, number=getattr(error, "errno", 0) or 0)
        self._post(attempt, AttemptEvent.NOT_LAUNCHED)

    async def launch(self, attempt: Attempt) -> None:
        """Begun here and told by an event: the next one, a wish to end it, is taken meanwhile."""
        if attempt.end is None and not self._is_cancelled(attempt):
            self._spawn(attempt, self._launch_step)

    def _is_cancelled(self, attempt: Attempt) -> bool:
        if attempt.cancel is None:
            return False
        self._never_started(attempt, "it was cancelled before it was launched", node_fault=False)
        self._post(attempt, AttemptEvent.NOT_LAUNCHED)
        return True

    async def _launch_step(self, attempt: Attempt) -> None:
        try:
            spec = await spec_for(self._around, attempt)
            await self._prepare(attempt, spec)
            launched = await self._around.blocking.run(launch_step, self._around, attempt, spec, partial(self._note, attempt))
        except OwnershipLost:
            raise
        except SpurprocError as error:
            self._around.ownership.require()
            await self._not_launched(attempt, error)
            return
        self._lacking.started(attempt)
        attempt.step, attempt.trace, attempt.started_at = launched.step, launched.trace, launched.started_at
        attempt.spec = None
        cpus = attempt.allocation and list(attempt.allocation.cpus)
        not_enforced = list(attempt.trace.not_enforced) or None
        self._around.log.info("launched", attempt=str(attempt.id), cpus=cpus, not_enforced=not_enforced)
        self._post(attempt, AttemptEvent.LAUNCHED)

    async def _not_launched(self, attempt: Attempt, error: SpurprocError) -> None:
        """What the node lacks is waited for. A host that knows it may know it from a try of ours that was taken back."""
        known = isinstance(error, LaunchedBefore) and not self._lacking.has_tried(attempt)
        if not known and await self._lacking.passes(attempt, error):
            if self._is_cancelled(attempt):
                self._lacking.left(attempt)
            else:
                self._spawn(attempt, self._launch_step)
            return
        self._lacking.left(attempt)
        if isinstance(error, LaunchedBefore):
            await self._hold(attempt, error)
        else:
            self._give_up(attempt, error)

    def _note(self, attempt: Attempt, descriptor: bytes) -> None:
        """On a thread that launches it: durable once this returns. Raises OwnershipLost, SystemCallError and the like."""
        self._around.ownership.require()
        self._around.database.write_and_wait(partial(note_launch, attempt=attempt.id, descriptor=descriptor))

    async def _hold(self, attempt: Attempt, error: SpurprocError) -> None:
        """Its host has launched it before, and of that there is no other trace: whether something of it lives nobody can tell."""
        body = partial(note_launch, attempt=attempt.id, descriptor=Trace.of_this_boot().content)
        with suppress(SpurprocError):  # said again at the next start
            await self._around.database.write(body)
        attempt.held_because = str(error)
        self._post(attempt, AttemptEvent.STUCK)
