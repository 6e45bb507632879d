"""The one loop that keeps the controller's idea of this node true: the first registration, every later one, and the sign of life.

The node is described at the moment of sending, never before: what changes while a registration is on its way is sent by the next
round of the same loop, so a controller never keeps what no longer holds.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from spurproc.agent.controller.link import Beat, ControllerLink, NodeDescription, NotFound, Reclaim, Unreachable
from spurproc.proto.attempt_id import AttemptId

__all__ = ["BackOff", "NodeSide", "Pause", "Registration", "pause"]

Pause = Callable[[asyncio.Event, float], Awaitable[None]]
"""Wait until the event is set or the seconds are over."""


async def pause(event: asyncio.Event, seconds: float) -> None:
    """By the clock of the running loop, which is monotonic."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


class BackOff:
    """How long to wait after a failure: twice as long each time, up to a bound, each shortened by chance so that nodes spread."""

    def __init__(self, *, first_s: float = 0.5, last_s: float = 30.0, chance: Callable[[], float] = random.random) -> None:
        """`chance`: a number from 0 to 1; the wait is between half and all of what it would be."""
        self._first_s = first_s
        self._last_s = last_s
        self._chance = chance
        self._next_s = first_s

    def next_s(self) -> float:
        """For one more failure."""
        wait_s = self._next_s * (0.5 + self._chance() / 2)
        self._next_s = min(self._next_s * 2, self._last_s)
        return wait_s

    def reset(self) -> None:
        """It went well."""
        self._next_s = self._first_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSide:
    """What the loop asks of the agent, and tells it."""

    describe: Callable[[], NodeDescription]
    """The node as it is now."""
    running: Callable[[], tuple[AttemptId, ...]]
    reclaim: Callable[[Reclaim], None]
    reached: Callable[[bool], None] = lambda answered: None
    """Whether the controller answered, each time it was asked."""
    may_speak: Callable[[], None] = lambda: None
    """Asked before each message. Raises Unreachable where that cannot be told now, and whatever ends the loop."""


class _Answered(enum.Enum):
    KNOWN = enum.auto()
    NOT_KNOWN = enum.auto()


class Registration:
    """One node's registration. `run` is its loop; what else there is may be called at any time from the same event loop."""

    def __init__(
        self,
        link: ControllerLink,
        side: NodeSide,
        *,
        interval_s: float,
        back_off: BackOff | None = None,
        pause: Pause = pause,
    ) -> None:
        self._link = link
        self._side = side
        self._interval_s = interval_s
        self._back_off = back_off or BackOff()
        self._pause = pause
        self._news = asyncio.Event()
        self._never = asyncio.Event()
        self._generation: int | None = None
        self._sent: NodeDescription | None = None
        self._denied = False
        """Somebody else was told that the node is not known, since it was registered."""
        self.registered = asyncio.Event()
        """Set while the controller knows this node, as far as we were told."""

    def changed(self) -> None:
        """What `describe` answers may be another by now: look at once."""
        self._news.set()

    def not_found(self) -> None:
        """Some other answer of the controller was NotFound: register, after the pause that follows such an answer to a beat."""
        self._denied = self._denied or self._generation is not None
        self._forget()
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._news.clear()
            try:
                answered = await self._turn()
            except Unreachable:
                answered = None
            self._side.reached(answered is not None)
            if answered is _Answered.KNOWN and not self._is_due():
                await self._pause(self._news, self._interval_s)
            elif answered is not _Answered.KNOWN:  # nothing hastens that: it is there to spare the controller
                await self._pause(self._never, self._back_off.next_s())

    async def _turn(self) -> _Answered:
        """The one message that is due: a registration, the drains, or a beat."""
        self._side.may_speak()
        node = self._side.describe()
        if self._denied:
            self._denied = False
            return _Answered.NOT_KNOWN
        if self._generation is None or self._sent is None or _but_for_drains(node) != _but_for_drains(self._sent):
            return await self._register(node)
        if node.drains != self._sent.drains:
            return await self._tell_drains(node)
        return await self._beat(self._generation)

    def _is_due(self) -> bool:
        """Whether something else than a beat is to be said."""
        return self._generation is None or self._side.describe() != self._sent

    async def _register(self, node: NodeDescription) -> _Answered:
        self._forget()
        self._generation = (await self._link.register(node)).generation
        self._sent = node
        self.registered.set()
        return _Answered.KNOWN

    async def _tell_drains(self, node: NodeDescription) -> _Answered:
        if isinstance(await self._link.drain(node.drains), NotFound):
            self._forget()
            return _Answered.NOT_KNOWN
        self._sent = node
        return _Answered.KNOWN

    async def _beat(self, generation: int) -> _Answered:
        """It alone shows that all is well: a controller that forgets each registration at once is not asked without a pause."""
        answer = await self._link.heartbeat(Beat(generation=generation, running=self._side.running()))
        if isinstance(answer, NotFound):
            self._forget()
            return _Answered.NOT_KNOWN
        self._back_off.reset()
        for reclaim in answer.reclaims:
            self._side.reclaim(reclaim)
        return _Answered.KNOWN

    def _forget(self) -> None:
        self._generation = None
        self._sent = None
        self.registered.clear()


def _but_for_drains(node: NodeDescription) -> tuple[object, ...]:
    return node.node, node.boot_id, node.version, node.totals, node.labels
