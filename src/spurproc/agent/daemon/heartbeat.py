"""How the agent says that it lives: in `ready.json`, and to the service manager."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field

from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.registration import Registration
from spurproc.agent.node.notify import ServiceManager
from spurproc.agent.node.ownership import OwnershipState
from spurproc.agent.node.readiness import Readiness, ReadyRecord
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import OwnershipLost, SpurprocError
from spurproc.version import VERSION

__all__ = ["Heartbeat"]


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """Says that it serves, each interval."""

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
