"""What the agent does again and again while it serves: says that it lives, and takes work."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field

from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.link import Cancel, Dispatch, NodeDescription, NotFound, Reclaim, Unreachable
from spurproc.agent.controller.registration import BackOff, NodeSide, Registration
from spurproc.agent.node.notify import ServiceManager
from spurproc.agent.node.ownership import OwnershipState
from spurproc.agent.node.readiness import Readiness, ReadyRecord
from spurproc.agent.resources.refusal import Conflict, Insufficient
from spurproc.agent.store.attempt_row import CancelIntent
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.vantage import read_boot_id
from spurproc.errors import OwnershipLost, SpurprocError
from spurproc.version import VERSION

__all__ = ["Dispatching", "Heartbeat", "node_side"]

_AGAIN_S = 1.0


def node_side(around: Surroundings, attempts: Attempts) -> NodeSide:
    """What the registration asks of this node."""
    boot_id = read_boot_id()

    def describe() -> NodeDescription:
        return NodeDescription(
            node=around.configuration.node_name,
            boot_id=boot_id,
            version=VERSION,
            totals=around.resources.inventory,
            drains=tuple(drain.why for drain in around.drains),
        )

    def reached(answered: bool) -> None:
        if answered is not around.reached.is_set():
            around.log.info("the controller answers" if answered else "the controller does not answer")
        (around.reached.set if answered else around.reached.clear)()

    def reclaim(order: Reclaim) -> None:
        attempt = attempts.find(order.attempt)
        if attempt is not None and attempt.cancel is None:
            why = order.why or "the controller has given it up"
            attempts.cancel(attempt, CancelIntent(uid=None, why=why, at=around.clock()))

    return NodeSide(describe=describe, running=lambda: attempts.running, reclaim=reclaim, reached=reached)


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
            self._around.ownership.require()
            try:
                await self._turn()
            except (Unreachable, Insufficient) as error:
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
            self._attempts.cancel(attempt, CancelIntent(uid=order.uid, why=order.why, at=self._around.clock()))

    async def _await_news(self) -> None:
        """The controller has something, or something was given back."""
        waits = [asyncio.ensure_future(self._around.link.await_work()), asyncio.ensure_future(self._around.freed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """Says that it serves, each interval: in `ready.json`, and to the service manager."""

    around: Surroundings
    registration: Registration
    readiness: Readiness
    manager: ServiceManager | None
    socket: str
    identity: ProcessIdentity = field(default_factory=lambda: ProcessIdentity.of(os.getpid()))
    started_at_s: float = 0.0

    async def run(self) -> None:
        """Until cancelled. Raises OwnershipLost."""
        while True:
            self.beat()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s()):
                    await self._registration_changed()

    async def _registration_changed(self) -> None:
        """Once the controller knows the node that is said at once; for all else the next beat is soon enough."""
        if self.registration.registered.is_set():
            await asyncio.Event().wait()
        await self.registration.registered.wait()

    def _interval_s(self) -> float:
        watchdog_s = self.manager.watchdog_s if self.manager is not None else None
        interval_s = self.around.configuration.heartbeat_interval_s
        return interval_s if watchdog_s is None else min(interval_s, watchdog_s / 2)

    def beat(self) -> None:
        """Now. Raises OwnershipLost."""
        try:
            state = self.readiness.publish(self._record())
        except SpurprocError as error:
            self.around.log.warning("cannot say that it is ready", error=str(error))
            return
        if state is not OwnershipState.HELD:
            raise OwnershipLost(self.around.ownership.reason)
        if self.manager is not None:
            with suppress(SpurprocError):
                self.manager.watchdog()

    def _record(self) -> ReadyRecord:
        return ReadyRecord(
            node_name=self.around.configuration.node_name,
            identity_text=self.identity.to_text(),
            version=VERSION,
            socket=self.socket,
            started_at_s=self.started_at_s,
            heartbeat_at_s=self.around.clock(),
            heartbeat_interval_s=self.around.configuration.heartbeat_interval_s,
            registered=self.registration.registered.is_set(),
        )
