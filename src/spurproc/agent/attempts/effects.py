"""The effects of the table, carried out: those of one attempt in order, those of different attempts side by side.

What is to be durable goes through the store before the next effect begins; what blocks runs on a thread; what takes its time is
begun here and comes back as an event.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.draining import note
from spurproc.agent.attempts.hooks import HookName, hook_begun, hook_plan, remove_hooks, run_hook
from spurproc.agent.attempts.records import RECORDS, drain_of, record
from spurproc.agent.attempts.reporting import offer
from spurproc.agent.attempts.step import (
    find_step,
    launch_step,
    prepare,
    remove_folders,
    remove_step,
    started_at,
    told_end,
    trace_of,
)
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.table import AttemptEvent, Effect, move
from spurproc.agent.attempts.watching import Watcher
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.refusal import NotHeld
from spurproc.agent.store.attempt_row import AttemptState
from spurproc.agent.store.attempts import spec_of
from spurproc.core.exit_info import ExitInfo
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import OwnershipLost, SpurprocError, SystemCallError

__all__ = ["EffectRunner"]

_RETRY_FIRST_S, _RETRY_LAST_S = 0.1, 30.0
Failpoint = Callable[[Effect, str], None]


def _go_on(_: Effect, __: str) -> None:
    """Where nobody makes a crash."""


class EffectRunner:
    """Moves attempts on. `left` is told of those of which nothing is owed any more, `freed` when resources were given back."""

    def __init__(
        self,
        around: Surroundings,
        left: Callable[[Attempt], None],
        freed: Callable[[], None],
        *,
        failpoint: Failpoint = _go_on,
    ) -> None:
        self._around = around
        self._left = left
        self._freed = freed
        self._failpoint = failpoint
        self._tasks: set[asyncio.Task[None]] = set()
        self._watcher = Watcher(around, self.post)
        self._methods: dict[Effect, Callable[[Attempt], Awaitable[None]]] = {
            Effect.RUN_PROLOG: self._begin_prolog,
            Effect.PREPARE: self._prepare,
            Effect.LAUNCH: self._launch,
            Effect.WATCH: self._watch,
            Effect.TERMINATE: self._terminate,
            Effect.RUN_EPILOG: self._begin_epilog,
            Effect.RELEASE: self._release,
            Effect.OFFER_REPORT: self._offer_report,
            Effect.REMOVE_STEP: self._remove_step,
            Effect.REMOVE_HOOKS: self._remove_hooks,
            Effect.REMOVE_SPOOL: self._remove_spool,
            Effect.LEAVE: self._leave,
        }

    # Events.

    def post(self, attempt: Attempt, event: AttemptEvent) -> None:
        """Something has happened to it. Events are taken one after the other, the effects of one before the next."""
        attempt.events.append(event)
        if not attempt.busy and not self._around.halted:
            attempt.busy = True
            self.spawn(self._drain(attempt))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Go on with it beside everything else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, OwnershipLost):
            self._around.lost.set()
        else:
            self._around.log.error("work on an attempt has failed", error=repr(error), exc_info=error)

    async def close(self) -> None:
        """Go on with nothing. Whatever has run on a thread is done, and whatever was not recorded is found at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drain(self, attempt: Attempt) -> None:
        """A fault of ours stops one attempt, and no other: it stands as it is, and is shown."""
        try:
            while attempt.events and not self._around.halted:
                await self._take(attempt, attempt.events.popleft())
            attempt.busy = False
        except OwnershipLost:
            raise
        except Exception as error:
            attempt.state, attempt.held_because = AttemptState.HELD, f"a fault of the agent: {error!r}"
            raise

    async def _take(self, attempt: Attempt, event: AttemptEvent) -> None:
        configuration = self._around.configuration
        facts = attempt.facts(has_prolog=bool(configuration.prolog_argv), has_epilog=bool(configuration.epilog_argv))
        answer = move(attempt.state, event, facts)
        if answer.state is not attempt.state:
            self._around.log.debug("moves on", attempt=str(attempt.id), because=event.value, state=answer.state.value)
        attempt.state = answer.state
        if answer.effects:
            self._around.ownership.require()
        for effects in _grouped(answer.effects):
            await self._carry_out(attempt, effects)
        for listener in self._around.listeners:
            listener(attempt.id)

    async def _carry_out(self, attempt: Attempt, effects: tuple[Effect, ...]) -> None:
        """Nothing that comes after them may be done before them: they are tried again until they work."""
        back_off = BackOff(first_s=_RETRY_FIRST_S, last_s=_RETRY_LAST_S)
        while not self._around.halted:
            try:
                self._pass(effects, "before")
                await self._do(attempt, effects)
                self._pass(effects, "after")
            except OwnershipLost:
                raise
            except (SpurprocError, OSError) as error:
                names = ", ".join(effect.value for effect in effects)
                self._around.log.warning("tried again later", attempt=str(attempt.id), what=names, error=str(error))
                await asyncio.sleep(back_off.next_s())
                self._around.ownership.require()
            else:
                return

    def _pass(self, effects: tuple[Effect, ...], where: str) -> None:
        for effect in effects:
            self._failpoint(effect, where)

    async def _do(self, attempt: Attempt, effects: tuple[Effect, ...]) -> None:
        if effects[0] in RECORDS:
            await self._around.database.write(record(attempt, effects, at=self._around.clock()))
            self._recorded(attempt, effects)
        else:
            await self._methods[effects[0]](attempt)

    def _recorded(self, attempt: Attempt, effects: tuple[Effect, ...]) -> None:
        log = self._around.log.bind(attempt=str(attempt.id))
        for effect in effects:
            match effect:
                case Effect.RECORD_CANCEL:
                    log.info("is to end", why=attempt.cancel.why if attempt.cancel else "")
                case Effect.RECORD_END:
                    log.info("ended", end=str(attempt.end), fault=attempt.node_fault)
                case Effect.RECORD_PROLOG_FAILED | Effect.RECORD_EPILOG_FAILED:
                    cause = "prolog" if effect is Effect.RECORD_PROLOG_FAILED else "epilog"
                    note(self._around, drain_of(attempt, cause, at=self._around.clock()))
                case Effect.RECORD_HELD:
                    log.warning("held", why=attempt.held_because)
                case Effect.RECORD_REFUSED:
                    attempt.refusals += 1
                    log.error("its report was refused", why=attempt.refused_because)
                case Effect.RECORD_FORGOTTEN:
                    log.debug("forgotten")
                case _:
                    pass

    # On the way to its step.

    async def spec(self, attempt: Attempt) -> JobSpec:
        """What it runs, from memory or the store."""
        if attempt.spec is not None:
            return attempt.spec
        return await self._around.database.read(lambda connection: spec_of(connection, attempt.id))

    async def _begin_prolog(self, attempt: Attempt) -> None:
        attempt.begun = True
        self.spawn(self._run_prolog(attempt))

    async def _run_prolog(self, attempt: Attempt) -> None:
        plan = hook_plan(self._around, HookName.PROLOG, attempt.id, spec=await self.spec(attempt))
        attempt.hook_failure = await run_hook(self._around, plan)
        if attempt.hook_failure:
            self._never_started(attempt, f"the node's prolog failed: {attempt.hook_failure}", node_fault=True)
        self.post(attempt, AttemptEvent.HOOK_FAILED if attempt.hook_failure else AttemptEvent.HOOK_PASSED)

    def _never_started(self, attempt: Attempt, reason: str, *, node_fault: bool, number: int = 0) -> None:
        attempt.end = ExitInfo.not_started(SpawnStage.NONE.name, number, reason=reason)
        attempt.node_fault = reason if node_fault else None

    async def _prepare(self, attempt: Attempt) -> None:
        attempt.begun = True
        try:
            await self._around.blocking.run(prepare, self._around, attempt.id, await self.spec(attempt))
        except OwnershipLost:
            raise
        except SpurprocError as error:
            self._give_up(attempt, error)

    def _give_up(self, attempt: Attempt, error: SpurprocError) -> None:
        """The kernel's refusals are the node's fault, all others the job's."""
        node_fault = isinstance(error, SystemCallError) and error.errno not in (errno.EPERM, errno.EACCES)
        self._never_started(attempt, str(error), node_fault=node_fault, number=getattr(error, "errno", 0) or 0)
        self.post(attempt, AttemptEvent.NOT_LAUNCHED)

    async def _launch(self, attempt: Attempt) -> None:
        """Begun here and told by an event: the next one, a wish to end it, is taken meanwhile."""
        if attempt.end is None:
            self.spawn(self._launch_step(attempt))

    async def _launch_step(self, attempt: Attempt) -> None:
        try:
            spec = await self.spec(attempt)
            attempt.step = await self._around.blocking.run(launch_step, self._around, attempt, spec)
        except OwnershipLost:
            raise
        except SpurprocError as error:
            self._around.ownership.require()
            self._give_up(attempt, error)
            return
        attempt.spec = None
        self._around.log.info("launched", attempt=str(attempt.id), cpus=list(attempt.allocation.cpus))
        self.post(attempt, AttemptEvent.LAUNCHED)

    # Its step.

    async def _watch(self, attempt: Attempt) -> None:
        attempt.trace = await self._around.blocking.run(trace_of, self._around, attempt.id)
        self.spawn(self._watch_step(attempt))

    async def _watch_step(self, attempt: Attempt) -> None:
        end = await self._watcher.over(attempt)
        if attempt.step is not None:
            attempt.started_at = started_at(attempt.step)
        with suppress(SpurprocError):
            end = told_end(self._around, attempt, await self.spec(attempt), end)
        attempt.end = attempt.end or end
        self.post(attempt, AttemptEvent.STEP_OVER)

    async def _terminate(self, attempt: Attempt) -> None:
        self.spawn(self._watcher.terminate(attempt))

    # What is owed.

    async def _begin_epilog(self, attempt: Attempt) -> None:
        self.spawn(self._run_epilog(attempt))

    async def _run_epilog(self, attempt: Attempt) -> None:
        plan = hook_plan(self._around, HookName.EPILOG, attempt.id, spec=await self.spec(attempt), end=attempt.end)
        attempt.hook_failure = await run_hook(self._around, plan)
        self.post(attempt, AttemptEvent.HOOK_FAILED if attempt.hook_failure else AttemptEvent.HOOK_PASSED)

    async def _release(self, attempt: Attempt) -> None:
        if attempt.holds:
            attempt.holds = False
            with suppress(NotHeld):
                self._around.resources.release(attempt.id)
            self._around.freed.set()
            if not self._around.resources.jobs_hold:
                self._around.idle.set()
            self._freed()

    async def _offer_report(self, attempt: Attempt) -> None:
        self.spawn(offer(self._around, attempt, self.post))

    async def _remove_step(self, attempt: Attempt) -> None:
        step = attempt.step or await self._around.blocking.run(find_step, self._around, attempt.id)
        if step is not None:
            await self._around.blocking.run(remove_step, self._around, step)

    async def _remove_hooks(self, attempt: Attempt) -> None:
        if any(hook_begun(self._around, attempt.id, name) for name in HookName):
            await self._around.blocking.run(remove_hooks, self._around, attempt.id)

    async def _remove_spool(self, attempt: Attempt) -> None:
        await self._around.blocking.run(remove_folders, self._around, attempt.id)

    async def _leave(self, attempt: Attempt) -> None:
        self._left(attempt)


def _grouped(effects: tuple[Effect, ...]) -> Iterator[tuple[Effect, ...]]:
    """Records that stand side by side are one transaction; all others stand alone."""
    for is_record, group in groupby(effects, key=lambda effect: effect in RECORDS):
        if is_record:
            yield tuple(group)
        else:
            yield from ((effect,) for effect in group)
