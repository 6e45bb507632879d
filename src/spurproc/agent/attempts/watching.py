"""What becomes of a step: its end by its supervisor or its records, and what cannot be ended, named."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress

from spurproc.agent import boot_clock
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.lost import Lost
from spurproc.agent.attempts.recovered import recovered_spec
from spurproc.agent.attempts.step import Traces, cut_short, find_step, spec_for, told_end, traces_of
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.tasks import Spawn
from spurproc.agent.attempts.unanswered import Unanswered, see
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.store.attempt_row import AttemptState
from spurproc.client.step import Step
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.observation import Liveness
from spurproc.errors import AlreadyGone, OwnershipLost, RecordInvalid, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.step_state import StepState

__all__ = ["Watcher"]

_READY_FIRST_S, _READY_LAST_S = 0.02, 1.0
_LOOK_AFTER_S = 5.0
_WALKED_WITHIN_S = 3660.0
"""Where no supervisor answers, and the plan is walked from here: no thread is given away for ever; a user may ask for an hour."""
_LOOK_LAST_S = 60.0
_OVER = (StepState.EPILOG, StepState.COMPLETED, StepState.LEAVING)


class Watcher:
    """Watches and ends the steps of attempts."""

    def __init__(
        self,
        around: Surroundings,
        post: Callable[[Attempt, AttemptEvent], None],
        spawn: Spawn,
        look_behind: Callable[[Attempt], Awaitable[None]],
    ) -> None:
        """`spawn` goes on with something beside everything else; `look_behind` is awaited before a step is said to be over."""
        self._around = around
        self._post = post
        self._spawn = spawn
        self._look_behind = look_behind
        self._lost = Lost(around)
        self._unanswered = Unanswered(around)
        self._turn = asyncio.Lock()
        self._ending: dict[AttemptId, float] = {}
        """Those that were told to end, and are looked at since; and when that began, by `boot_clock`."""
        self._walking: set[AttemptId] = set()
        """Those of which a thread is told to have the plan walked."""

    async def watch(self, attempt: Attempt) -> None:
        """Its end comes as an event. One that was launched by an agent before us is looked at first."""
        self._spawn(attempt, self._watch_step)

    async def _look(self, attempt: Attempt) -> None:
        """Who runs it; and what whoever was killed has begun, and did not come to write down."""
        turns = attempt.turns
        traces, frozen = await self._around.blocking.run(_looked_at, self._around, attempt)
        attempt.trace = traces.trace
        attempt.started_at = attempt.started_at or traces.started_at
        if traces.started_at is None and attempt.cancel is None:
            self._spawn(attempt, self._start)
        if frozen is not (attempt.state is AttemptState.SUSPENDED) and turns == attempt.turns:
            self._post(attempt, AttemptEvent.SUSPENDED if frozen else AttemptEvent.RESUMED)

    async def _watch_step(self, attempt: Attempt) -> None:
        if attempt.trace.is_empty and attempt.step is not None:
            async with self._turn:  # a thousand at a start keep nobody else waiting
                await self._look(attempt)
        end = await self.over(attempt)
        self._lost.forget(attempt)
        self._unanswered.forget(attempt)
        if attempt.started_at is None and end.kind is not ExitKind.NOT_STARTED:  # nobody had written it down when it was launched
            attempt.started_at = (await self._around.blocking.run(traces_of, self._around, attempt.id)).started_at
        if attempt.cancel is None:
            attempt.node_fault = attempt.node_fault or cut_short(end)
        if not attempt.has_row:
            attempt.spec = await self._around.blocking.run(recovered_spec, self._around, attempt.id)
        if end.kind is ExitKind.NOT_STARTED:
            with suppress(SpurprocError):
                end = told_end(self._around, attempt, await spec_for(self._around, attempt), end)
        attempt.end = attempt.end or end
        await self._look_behind(attempt)
        self._post(attempt, AttemptEvent.STEP_OVER)

    async def over(self, attempt: Attempt) -> ExitInfo:
        """How it ended, once nothing of its tree is left. Where that cannot be told it is held, and looked at again."""
        back_off = BackOff(first_s=1.0, last_s=_LOOK_LAST_S)
        seen = attempt.step is not None
        while True:
            try:
                step = attempt.step = attempt.step or await self._find(attempt)
                if not seen:
                    await self._see_again(attempt, step)
                seen = True
                return await step.wait_async(completed=True)
            except AlreadyGone as error:
                self._around.ownership.require()
                known = attempt.step is not None or not attempt.trace.is_empty or self._lost.is_to_end(attempt)
                if known or attempt.state is not AttemptState.HELD:  # else it waits for its step since its start
                    remains = await self._lost.remains(attempt)
                    if not remains:
                        return ExitInfo.unknown(f"its records were removed: {error}")
                    self._hold(attempt, f"its records were removed, and {remains}: {error}")
            except (SpurprocError, OSError) as error:
                if attempt.step is not None or attempt.state is not AttemptState.HELD:
                    self._hold(attempt, str(error))
                elif self._lost.is_to_end(attempt) and isinstance(error, RecordInvalid):
                    remains = await self._lost.remains(attempt)
                    if not remains:
                        return ExitInfo.unknown(f"its records cannot be read: {error}")
                    self._hold(attempt, f"its records cannot be read, and {remains}: {error}")
            seen = False
            await self._lost.pause(attempt, back_off.next_s())

    async def _find(self, attempt: Attempt) -> Step:
        """Of one that is held since its start, for its step could not be read."""
        found = await self._around.blocking.run(find_step, self._around, attempt.id)
        if found is None:
            raise AlreadyGone(errno.ENOENT, f"attempt {attempt.id} has no step")
        return found

    async def _see_again(self, attempt: Attempt, step: Step) -> None:
        """It answers (again): it is held no more for that it did not; one without a row is all the same, for what it holds."""
        status = await self._around.blocking.run(step.status)
        if attempt.has_row or attempt.cancel is not None:
            attempt.held_because = None
            self._post(attempt, AttemptEvent.FOUND)
        await self._look(attempt)
        if status.state is StepState.SUSPENDED:
            self._post(attempt, AttemptEvent.SUSPENDED)

    def _hold(self, attempt: Attempt, why: str) -> None:
        if attempt.held_because != why:
            attempt.held_because = why
            self._post(attempt, AttemptEvent.STUCK)

    @staticmethod
    def _step(attempt: Attempt) -> Step:
        if attempt.step is None:
            raise AlreadyGone(2, f"attempt {attempt.id} has no step")
        return attempt.step

    async def _start(self, attempt: Attempt) -> None:
        """Tell it to start, once it waits for that: who launched it may have been killed before it did so."""
        back_off = BackOff(first_s=_READY_FIRST_S, last_s=_READY_LAST_S)
        try:
            while True:
                if not await self._is_new(attempt):
                    return
                await asyncio.sleep(back_off.next_s())
        except OwnershipLost:
            raise
        except SpurprocError as error:  # it ends by itself where nobody can tell it, and whoever watches it sees how
            self._around.log.debug("cannot be told to start", attempt=str(attempt.id), error=str(error))

    async def _is_new(self, attempt: Attempt) -> bool:
        """Whether it does not even wait to be told yet. If it does, it is told."""
        if attempt.end is not None or attempt.cancel is not None:
            return False
        step = self._step(attempt)
        state = (await self._around.blocking.run(step.status)).state
        if state is StepState.READY:
            self._around.ownership.require()
            await self._around.blocking.run(step.start)
            self._around.log.info("started", attempt=str(attempt.id))
        return state is StepState.NEW

    async def terminate(self, attempt: Attempt) -> None:
        """Beside everything else: it is over when its end comes."""
        self._spawn(attempt, self._terminate)

    async def _terminate(self, attempt: Attempt) -> None:
        """Have its kill plan walked, and look then whether that was enough: what cannot be ended is named, and held.

        Tried again until somebody has taken it on.
        """
        if attempt.end is not None or attempt.id in self._walking:
            return
        self._around.ownership.require()
        ago_s = self._begun_s_ago(attempt)
        self._walking.add(attempt.id)
        try:
            terminate = self._step(attempt).terminate
            await self._around.blocking.walk(terminate, timeout_s=_WALKED_WITHIN_S, begun_s_ago=ago_s)
        except AlreadyGone:
            self._lost.end(attempt, begun_s_ago=ago_s)  # whoever watches it has found the same, or does so now
        finally:
            self._walking.discard(attempt.id)

    def _begun_s_ago(self, attempt: Attempt) -> float:
        """How much of its plan is over: neither a restart nor another word begins it anew."""
        now_s = boot_clock.boot_s()
        if attempt.id not in self._ending:
            self._ending[attempt.id] = min(now_s, _begun_before_us_s(attempt) or now_s)
            self._spawn(attempt, self._name_what_stays)
        return now_s - self._ending[attempt.id]

    async def _name_what_stays(self, attempt: Attempt) -> None:
        back_off = BackOff(first_s=_LOOK_AFTER_S, last_s=_LOOK_LAST_S)
        while attempt.end is None:
            await asyncio.sleep(back_off.next_s())
            await self.look(attempt)
        self._ending.pop(attempt.id, None)

    async def look(self, attempt: Attempt) -> None:
        """Whether its kill plan is over, and something of it lives on: that is named, and held."""
        try:
            step = self._step(attempt)
            seen = await self._around.blocking.walk(see, step)
        except (SpurprocError, OSError):
            return
        if attempt.end is None:
            await self._unanswered.take(attempt, step, seen)
        status = seen.status
        if attempt.id in self._ending and not status.supervised and seen.leader is Liveness.ALIVE:
            self._spawn(attempt, self._terminate)  # whoever walked its plan has died, or says nothing
        if attempt.end is None and status.state not in _OVER and (status.held_by or status.state is StepState.HELD):
            self._hold(attempt, f"it cannot be ended: {'; '.join(status.held_by)}")


def _begun_before_us_s(attempt: Attempt) -> float | None:
    """When an agent before this one began to end it."""
    return attempt.cancel.at_boot_s if attempt.cancel is not None and attempt.was_to_end else None


def _looked_at(around: Surroundings, attempt: Attempt) -> tuple[Traces, bool]:
    """And whether it stands still; of one that has no cgroup nobody can tell that, and what was written down stands."""
    traces = traces_of(around, attempt.id)
    record = traces.trace.cgroup
    return traces, attempt.state is AttemptState.SUSPENDED if record is None else _is_frozen(record)


def _is_frozen(record: CgroupRecord) -> bool:
    try:
        with Cgroup.open(record.path, record.inode) as cgroup:
            return cgroup.events().read().frozen
    except SpurprocError:
        return False
