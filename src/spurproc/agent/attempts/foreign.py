"""Steps beside the batch step, of a later release or somebody else: as long as one runs nothing more is given away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from spurproc.agent.attempts.draining import drain_for, lift, step_cause
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.store.drains import DrainKind
from spurproc.client.step import Step
from spurproc.errors import OwnershipLost, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.step_state import StepState

__all__ = ["Foreign"]

_FIRST_S, _LAST_S = 1.0, 30.0
_OVER = (StepState.COMPLETED, StepState.LEAVING)


class Foreign:
    """Those that were found at the start."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._running: list[Step] = []

    async def leave_alone(self, steps: Iterable[Step]) -> None:
        """What they hold nobody knows."""
        for step in steps:
            why = f"step {step.runtime_id} is none that this release launches"
            self._around.log.warning("left alone", step=str(step.runtime_id), why=why)
            if not await self._around.blocking.run(_is_over, step):
                drain_for(self._around, AttemptId.of(step.runtime_id), why, step=step.runtime_id)
                self._running.append(step)

    async def run(self) -> None:
        """Look at them again until none runs any more: whatever waits for that goes on."""
        back_off = BackOff(first_s=_FIRST_S, last_s=_LAST_S)
        while self._running:
            await asyncio.sleep(back_off.next_s())
            for step in list(self._running):
                try:
                    await self._look(step)
                except OwnershipLost:
                    raise
                except (SpurprocError, OSError) as error:
                    self._around.log.warning("tried again later", step=str(step.runtime_id), error=str(error))

    async def _look(self, step: Step) -> None:
        if await self._around.blocking.run(_is_over, step):
            self._around.ownership.require()
            await lift(self._around, DrainKind.SYSTEM, step_cause(step.runtime_id))
            self._running.remove(step)


def _is_over(step: Step) -> bool:
    try:
        return step.status().state in _OVER
    except SpurprocError:
        return False
