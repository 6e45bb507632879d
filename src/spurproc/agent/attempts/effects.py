"""The effects of the table, carried out: those of one attempt in order, those of different attempts side by side.

What is to be durable goes through the store before the next effect begins; what blocks runs on a thread; what takes its time is
begun here and comes back as an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import groupby

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.clearing import Clearing
from spurproc.agent.attempts.draining import note
from spurproc.agent.attempts.effect import Effect
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.lacking import Lacking
from spurproc.agent.attempts.records import PATIENT, RECORDS, drain_of, record
from spurproc.agent.attempts.starting import Starting
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.table import move
from spurproc.agent.attempts.tasks import RETRY_FIRST_S, RETRY_LAST_S, Tasks
from spurproc.agent.attempts.watching import Watcher
from spurproc.agent.controller.registration import BackOff
from spurproc.core.exit_info import ExitInfo
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import OwnershipLost, SpurprocError

__all__ = ["EffectRunner"]

Failpoint = Callable[[Effect, str], None]


def _go_on(_: Effect, __: str) -> None:
    """Where nobody makes a crash."""


class EffectRunner:
    """Moves attempts on. `left` is told of those of which nothing is owed any more, `freed` when resources were given back.

    `look_behind`: see `Watcher`.
    """

    def __init__(
        self,
        around: Surroundings,
        left: Callable[[Attempt], None],
        freed: Callable[[], None],
        look_behind: Callable[[Attempt], Awaitable[None]],
        *,
        failpoint: Failpoint = _go_on,
    ) -> None:
        self._around = around
        self._failpoint = failpoint
        self._tasks = Tasks(around)
        self.spawn = self._tasks.spawn
        self.close = self._tasks.close
        self._lacking = Lacking(around)
        starting = Starting(around, self.post, self.spawn, self._lacking)
        self.watcher = watcher = Watcher(around, self.post, self.spawn, look_behind)
        clearing = Clearing(around, self.post, self.spawn, freed, self._lacking)

        async def leave(attempt: Attempt) -> None:
            left(attempt)

        self._methods: dict[Effect, Callable[[Attempt], Awaitable[None]]] = {
            Effect.RUN_PROLOG: starting.begin_prolog,
            Effect.PREPARE: starting.prepare,
            Effect.LAUNCH: starting.launch,
            Effect.WATCH: watcher.watch,
            Effect.TERMINATE: watcher.terminate,
            Effect.RUN_EPILOG: clearing.begin_epilog,
            Effect.RELEASE: clearing.release,
            Effect.OFFER_REPORT: clearing.offer_report,
            Effect.REMOVE_STEP: clearing.remove_step,
            Effect.REMOVE_HOOKS: clearing.remove_hooks,
            Effect.REMOVE_SPOOL: clearing.remove_spool,
            Effect.LEAVE: leave,
        }

    # Events.

    def post(self, attempt: Attempt, event: AttemptEvent) -> None:
        """Something has happened to it. Events are taken one after the other, the effects of one before the next."""
        attempt.events.append(event)
        if not attempt.busy and not attempt.broken and not self._around.halted:
            attempt.busy = True
            self.spawn(attempt, self._drain)

    async def record(self, attempt: Attempt, event: AttemptEvent) -> None:
        """As `post`; back once it is taken, and what it makes durable is."""
        recorded = asyncio.get_running_loop().create_future()
        attempt.waiting.append(recorded)
        self.post(attempt, event)
        await recorded

    async def _drain(self, attempt: Attempt) -> None:
        while attempt.events and not attempt.broken and not self._around.halted:
            await self._take(attempt, attempt.events.popleft())
        attempt.busy = False
        while attempt.waiting and not attempt.broken and not self._around.halted:
            waiting = attempt.waiting.pop()
            if not waiting.done():
                waiting.set_result(None)

    async def _take(self, attempt: Attempt, event: AttemptEvent) -> None:
        configuration = self._around.configuration
        facts = attempt.facts(has_prolog=bool(configuration.prolog_argv), has_epilog=bool(configuration.epilog_argv))
        answer = move(attempt.state, event, facts)
        if answer.state is not attempt.state:
            self._around.log.debug("moves on", attempt=str(attempt.id), because=event.value, state=answer.state.value)
        attempt.state = answer.state
        if Effect.RECORD_END in answer.effects:
            attempt.end = attempt.end or _without_a_step(attempt)
        for effects in _grouped(answer.effects):
            await self._carry_out(attempt, effects)
        for listener in self._around.listeners:
            listener(attempt.id)

    async def _carry_out(self, attempt: Attempt, effects: tuple[Effect, ...]) -> None:
        """Nothing that comes after them may be done before them: they are tried again until they work."""
        back_off = BackOff(first_s=RETRY_FIRST_S, last_s=RETRY_LAST_S)
        names = ", ".join(effect.value for effect in effects)
        problem = f"attempt {attempt.id}: {names}"
        while not self._around.halted:
            try:
                self._around.ownership.require()
                self._pass(effects, "before")
                await self._do(attempt, effects)
                self._pass(effects, "after")
            except OwnershipLost:
                raise
            except (SpurprocError, OSError) as error:
                self._around.log.warning("tried again later", attempt=str(attempt.id), what=names, error=str(error))
                self._around.problems[problem] = f"attempt {attempt.id} cannot go on yet: {error}"
                await asyncio.sleep(back_off.next_s())
            else:
                self._around.problems.pop(problem, None)
                return

    def _pass(self, effects: tuple[Effect, ...], where: str) -> None:
        for effect in effects:
            self._failpoint(effect, where)

    async def _do(self, attempt: Attempt, effects: tuple[Effect, ...]) -> None:
        if effects[0] in RECORDS:
            body = record(attempt, effects, at=self._around.clock())
            if body is not None:
                await self._around.database.write(body, urgent=not PATIENT.issuperset(effects))
            self._recorded(attempt, effects)
        else:
            await self._methods[effects[0]](attempt)

    def _recorded(self, attempt: Attempt, effects: tuple[Effect, ...]) -> None:
        log = self._around.log.bind(attempt=str(attempt.id))
        for effect in effects:
            match effect:
                case Effect.RECORD_CANCEL:
                    log.info("is to end", why=attempt.cancel.why if attempt.cancel else "")
                    self._lacking.look(attempt)
                case Effect.RECORD_END:
                    attempt.has_row = True
                    log.info("ended", end=str(attempt.end), fault=attempt.node_fault)
                case Effect.RECORD_PROLOG_FAILED | Effect.RECORD_EPILOG_FAILED:
                    cause = "prolog" if effect is Effect.RECORD_PROLOG_FAILED else "epilog"
                    note(self._around, drain_of(attempt, cause, at=self._around.clock()))
                case Effect.RECORD_HELD:
                    log.warning("held", why=attempt.held_because)
                case Effect.RECORD_REFUSED:
                    attempt.refusals += 1
                    log.error("its report was refused", why=attempt.refused_because)
                case Effect.RECORD_REPORTED:
                    attempt.reported = True  # and no sooner: what is taken before this event goes on without it
                    self._around.reports += 1
                case Effect.RECORD_FORGOTTEN:
                    log.debug("forgotten")
                case _:
                    pass


def _without_a_step(attempt: Attempt) -> ExitInfo:
    """It was told to end before it was launched, or is a reservation."""
    words = "a reservation that was given back" if attempt.is_reservation else "it was cancelled before it was launched"
    return ExitInfo.not_started(SpawnStage.NONE.name, 0, reason=words)


def _grouped(effects: tuple[Effect, ...]) -> Iterator[tuple[Effect, ...]]:
    """Records that stand side by side are one transaction; all others stand alone."""
    for is_record, group in groupby(effects, key=lambda effect: effect in RECORDS):
        if is_record:
            yield tuple(group)
        else:
            yield from ((effect,) for effect in group)
