"""What goes on for an attempt beside all others: begun anew where the node refused it something, stopped by a fault of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.store.attempt_row import AttemptState
from spurproc.errors import OwnershipLost, SpurprocError

__all__ = ["RETRY_FIRST_S", "RETRY_LAST_S", "Spawn", "Tasks", "Work"]

RETRY_FIRST_S, RETRY_LAST_S = 0.1, 30.0

Work = Callable[[Attempt], Awaitable[None]]
Spawn = Callable[[Attempt, Work], None]
"""Go on with it, for that attempt, beside everything else."""


class Tasks:
    """Those of all attempts. One attempt stands still for what is wrong with it, and no other."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, attempt: Attempt, work: Work) -> None:
        """Go on with it. It is begun anew after an error of the node, so it says nothing to anybody before its last step."""
        task = asyncio.create_task(self._guarded(attempt, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Go on with nothing. What a thread launches is done by then, and what was not recorded is found at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _guarded(self, attempt: Attempt, work: Work) -> None:
        try:
            await self._tried(attempt, work)
        except OwnershipLost:
            self._around.lost.set()
        except Exception as error:  # noqa: BLE001 - whatever it is: a fault of ours
            self._stop(attempt, error)

    async def _tried(self, attempt: Attempt, work: Work) -> None:
        back_off = BackOff(first_s=RETRY_FIRST_S, last_s=RETRY_LAST_S)
        problem = f"attempt {attempt.id}: {getattr(work, '__qualname__', work)}"
        while not self._around.halted:
            try:
                await work(attempt)
            except OwnershipLost:
                raise
            except (SpurprocError, OSError) as error:
                self._around.log.warning("tried again later", attempt=str(attempt.id), error=str(error))
                self._around.problems[problem] = f"attempt {attempt.id} cannot go on yet: {error}"
                await asyncio.sleep(back_off.next_s())
            else:
                self._around.problems.pop(problem, None)
                return

    def _stop(self, attempt: Attempt, error: Exception) -> None:
        """It stands as it is, and is shown; the next agent goes on with it."""
        self._around.log.error("work on an attempt has failed", attempt=str(attempt.id), error=repr(error), exc_info=error)
        attempt.broken = True
        attempt.state, attempt.held_because = AttemptState.HELD, f"a fault of the agent: {error!r}"
        while attempt.waiting:
            waiting = attempt.waiting.pop()
            if not waiting.done():
                waiting.set_exception(SpurprocError(f"attempt {attempt.id} cannot go on: {attempt.held_because}"))
        for listener in self._around.listeners:
            listener(attempt.id)
