"""How the agent takes work: one order after the other, for as long as the controller knows the node."""

from __future__ import annotations

import asyncio

from spurproc.agent.attempts.dispatch import Attempts, OutdatedOrder
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.link import Cancel, Dispatch, NotFound, Unreachable
from spurproc.agent.controller.registration import BackOff, Registration
from spurproc.agent.resources.refusal import Conflict, Insufficient
from spurproc.errors import SystemCallError

__all__ = ["Dispatching"]


class Dispatching:
    """Takes one order after the other, while the controller knows the node. Its own turn is one order."""

    def __init__(self, around: Surroundings, attempts: Attempts, registration: Registration) -> None:
        self._around = around
        self._attempts = attempts
        self._registration = registration

    async def run(self) -> None:
        """Until cancelled. Raises OwnershipLost."""
        back_off = BackOff()
        while True:
            await self._registration.registered.wait()
            try:
                self._around.ownership.require()
                await self._turn()
            except (Unreachable, Insufficient, OutdatedOrder, SystemCallError) as error:
                self._around.log.debug("no work taken", why=str(error))
                await asyncio.sleep(back_off.next_s())
            else:
                back_off.reset()

    async def _turn(self) -> None:
        self._around.freed.clear()
        match order := await self._around.link.take_work(self._attempts):
            case Dispatch():
                self._around.ownership.require()
                await self._take_on(order)
            case Cancel():
                self._cancel(order)
            case NotFound():
                self._registration.not_found()
                await asyncio.sleep(0)
            case _:
                await self._await_news()

    async def _take_on(self, order: Dispatch) -> None:
        try:
            await self._attempts.take_on(order)
        except Conflict as error:  # it holds them already: what was said before
            self._around.log.warning("dispatched again", attempt=str(order.attempt), why=str(error))

    def _cancel(self, order: Cancel) -> None:
        attempt = self._attempts.find(order.attempt)
        if attempt is not None:
            self._attempts.cancel(attempt, self._around.intent(order.why, uid=order.uid))

    async def _await_news(self) -> None:
        """The controller has something, or something was given back."""
        waits = [asyncio.ensure_future(self._around.link.await_work()), asyncio.ensure_future(self._around.freed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
