"""The inventory, looked at again and again: what is read, classified, and then done about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from spurproc.agent.attempts.draining import lift, set_drain, stands
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.daemon.inventory_reader import InventoryReader
from spurproc.agent.inventory.difference import differences
from spurproc.agent.inventory.outcome import ConfirmedBusy, ConfirmedIdle, Outcome, classify
from spurproc.agent.inventory.policy import Action, SystemDrain, answer
from spurproc.agent.inventory.reading import Failed, Inventory, Reading
from spurproc.agent.store.drains import Drain, DrainKind
from spurproc.agent.store.node_values import NodeValue, write_value
from spurproc.errors import OwnershipLost, SpurprocError
from spurproc.proto.codec import encode

__all__ = ["InventoryTurns"]

_CAUSE = "inventory"
_UNWRITTEN = "what was found of the inventory"
_LEFT_OUT = "GPUs that are left out"
_NOT_THERE = "what is configured and not there"
OF_INVENTORY = (_CAUSE, _UNWRITTEN, _LEFT_OUT, _NOT_THERE)
"""The causes of the drains and problems that are told of from here."""


class InventoryTurns:
    """What was accepted, what was read last, and what follows. Missed turns are skipped: each reading is of now."""

    def __init__(self, around: Surroundings, reader: InventoryReader, changed: Callable[[], None]) -> None:
        """`changed`: the controller has to be told."""
        self._around = around
        self._reader = reader
        self._changed = changed
        self._last: Reading | None = None
        self._unwritten = True
        """What counts is not durable yet."""

    async def begin(self) -> None:
        """Before anything is served: what has changed since the last life of the agent is confirmed and answered."""
        await self.turn()
        if isinstance(self._last, Inventory) and self._last != self._around.resources.inventory:
            await self.turn()
        if isinstance(self._last, Failed):
            await self._try_to_write(self._keep_to_configuration())

    async def _keep_to_configuration(self) -> None:
        """What was accepted may be more than is configured by now, and nobody can tell how long it stands."""
        resources = self._around.resources
        within = self._reader.within(resources.inventory)
        if within != resources.inventory:
            await (self._drain(within) if resources.jobs_hold else self._apply(within))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._pause()
            await self.turn()

    async def _pause(self) -> None:
        """Until the next turn is due; or the last job has ended, once, and a change has waited for that."""
        idle = self._around.idle
        with suppress(TimeoutError):
            async with asyncio.timeout(self._around.configuration.inventory_interval_s):
                while True:
                    await idle.wait()
                    idle.clear()
                    if self._drained:
                        return

    @property
    def _drained(self) -> bool:
        return stands(self._around, DrainKind.SYSTEM, _CAUSE) is not None

    async def turn(self) -> Outcome:
        """One reading, and what follows from it."""
        reading = await self._reader.read()
        if self._unwritten:
            await self._try_to_write(self._keep())
        resources = self._around.resources
        outcome = classify(resources.inventory, self._last, reading, jobs_run=resources.jobs_hold)
        self._last = reading
        self._name_what_is_left_out()
        self._name_what_is_not_there()
        if not self._unwritten:  # nothing is awaited between: what it found of the jobs still holds when it applies that
            await self._try_to_write(self._act(outcome))
        return outcome

    async def _try_to_write(self, work: Awaitable[None]) -> None:
        """What the disk refuses is done at the next turn, which finds the same."""
        try:
            await work
        except OwnershipLost:
            raise
        except SpurprocError as error:
            self._around.problems[_UNWRITTEN] = f"what was found of the inventory cannot be written down: {error}"
            self._around.log.warning("cannot be written down yet", what=_UNWRITTEN, error=str(error))
        else:
            self._around.problems.pop(_UNWRITTEN, None)

    def _name_what_is_left_out(self) -> None:
        """Whoever wonders where a GPU is finds it here."""
        left_out = [f"{gpu}: {why}" for gpu, why in self._reader.left_out.items()]
        problem = f"no job gets the GPU {'; '.join(left_out)}"
        if not left_out:
            self._around.problems.pop(_LEFT_OUT, None)
        elif self._around.problems.get(_LEFT_OUT) != problem:
            self._around.problems[_LEFT_OUT] = problem
            self._around.log.warning("a GPU is given to no job", gpus=left_out)

    def _name_what_is_not_there(self) -> None:
        """A name that was mistyped gives jobs less than was meant."""
        not_there = self._reader.not_there
        problem = f"configured for jobs, and not there: {', '.join(not_there)}"
        if not not_there:
            self._around.problems.pop(_NOT_THERE, None)
        elif self._around.problems.get(_NOT_THERE) != problem:
            self._around.problems[_NOT_THERE] = problem
            self._around.log.warning("what is configured is not there", what=list(not_there))

    async def _act(self, outcome: Outcome) -> None:
        what = answer(outcome)
        self._around.problems.pop(_CAUSE, None)
        if isinstance(outcome, Failed):
            self._around.problems[_CAUSE] = f"the inventory cannot be read: {outcome.reason}"
            self._around.log.warning("the inventory cannot be read", why=outcome.reason)
        if what.action is Action.APPLY and isinstance(outcome, ConfirmedIdle):
            await self._apply(outcome.inventory)
        if what.system_drain is SystemDrain.SET and isinstance(outcome, ConfirmedBusy):
            await self._drain(outcome.inventory)
        elif what.system_drain is SystemDrain.LIFT:
            await lift(self._around, DrainKind.SYSTEM, _CAUSE)

    async def _apply(self, inventory: Inventory) -> None:
        self._around.ownership.require()
        for difference in differences(self._around.resources.inventory, inventory):
            self._around.log.warning("the inventory has changed", what=difference)
        self._around.resources.apply_inventory(inventory)
        self._unwritten = True
        await self._keep()

    async def _keep(self) -> None:
        """What counts by now; whoever goes by it is told of it."""
        await self._remember()
        self._unwritten = False
        self._changed()
        self._around.freed.set()

    async def _remember(self) -> None:
        content, at = encode(self._around.resources.known), self._around.clock()
        await self._around.database.write(
            lambda connection: write_value(connection, NodeValue.ACCEPTED_INVENTORY, content, at=at)
        )

    async def _drain(self, inventory: Inventory) -> None:
        what = "; ".join(differences(self._around.resources.inventory, inventory))
        why = f"the inventory has changed: {what}"
        await set_drain(self._around, Drain(kind=DrainKind.SYSTEM, cause=_CAUSE, why=why, since=self._around.clock()))
