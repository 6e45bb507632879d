"""What an attempt owes once its step is over: the epilog of the node, its resources, its report, its folders."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.draining import attempt_cause, lift
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.hooks import HookName, HookNotStarted, hook_begun, hook_plan, remove_hooks, run_hook
from spurproc.agent.attempts.lacking import Lacking
from spurproc.agent.attempts.outdated import note_report
from spurproc.agent.attempts.reporting import offer
from spurproc.agent.attempts.step import find_step, remove_folders, remove_step, spec_for
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.tasks import Spawn
from spurproc.agent.resources.refusal import NotHeld
from spurproc.agent.store.drains import DrainKind
from spurproc.errors import AlreadyGone, RecordInvalid

__all__ = ["Clearing"]


class Clearing:
    """Carries out the effects behind the end. `spawn` goes on with something beside everything else."""

    def __init__(
        self,
        around: Surroundings,
        post: Callable[[Attempt, AttemptEvent], None],
        spawn: Spawn,
        freed: Callable[[], None],
        lacking: Lacking,
    ) -> None:
        self._around = around
        self._post = post
        self._spawn = spawn
        self._freed = freed
        self._lacking = lacking

    async def begin_epilog(self, attempt: Attempt) -> None:
        """It is told by an event how that ended."""
        self._spawn(attempt, self._run_epilog)

    async def _run_epilog(self, attempt: Attempt) -> None:
        try:
            spec = await spec_for(self._around, attempt)
        except (RecordInvalid, AlreadyGone) as error:
            attempt.hook_failure = f"it cannot be told what it is about: {error}"
        else:
            plan = hook_plan(self._around, HookName.EPILOG, attempt.id, spec=spec, end=attempt.end)
            try:
                attempt.hook_failure = await run_hook(self._around, plan)
            except HookNotStarted as error:
                if not await self._lacking.passes(attempt, error):
                    raise
                self._spawn(attempt, self._run_epilog)
                return
            self._lacking.started(attempt)
        self._post(attempt, AttemptEvent.HOOK_FAILED if attempt.hook_failure else AttemptEvent.HOOK_PASSED)

    async def release(self, attempt: Attempt) -> None:
        """Its resources are another's from now on; once. Where nobody knew what they are the node takes work again."""
        if attempt.allocation is None:
            await lift(self._around, DrainKind.SYSTEM, attempt_cause(attempt.id))
        if attempt.has_claim:
            attempt.has_claim = False
            with suppress(NotHeld):
                self._around.resources.release(attempt.id)
            self._around.freed.set()
            if not self._around.resources.jobs_hold:
                self._around.idle.set()
        self._freed()

    async def offer_report(self, attempt: Attempt) -> None:
        """It is told by an event what the controller answered."""
        self._spawn(attempt, self._offer)

    async def _offer(self, attempt: Attempt) -> None:
        await offer(self._around, attempt, self._post)

    async def remove_step(self, attempt: Attempt) -> None:
        """Acknowledge it and remove its folder; nothing else tells of it from then on."""
        note_report(self._around)
        step = attempt.step or await self._around.blocking.run(find_step, self._around, attempt.id)
        if step is not None:
            await self._around.blocking.run(remove_step, step)

    async def remove_hooks(self, attempt: Attempt) -> None:
        """The folders of its hooks, if there were any."""
        if any(hook_begun(self._around, attempt.id, name) for name in HookName):
            await self._around.blocking.run_patiently(remove_hooks, self._around, attempt.id)

    async def remove_spool(self, attempt: Attempt) -> None:
        """Its script and its scratch folder."""
        await self._around.blocking.run_patiently(remove_folders, self._around, attempt.id)
