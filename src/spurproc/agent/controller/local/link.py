"""The link to the built-in controller: nothing is lost on the way, and the rest is as with any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spurproc.agent.controller.link import (
    Acknowledged,
    AttemptReport,
    Beat,
    Cancel,
    Dispatch,
    Healthy,
    NodeDescription,
    NodeView,
    NotFound,
    Nothing,
    RefusedForGood,
    Registered,
    Unreachable,
)
from spurproc.agent.controller.local.controller import LocalController
from spurproc.errors import RecordInvalid, SystemCallError

__all__ = ["LocalLink"]


class LocalLink:
    """A `ControllerLink`. Borrows the controller."""

    def __init__(self, controller: LocalController) -> None:
        self._controller = controller
        self._generation: int | None = None
        self._drained = False

    async def register(self, node: NodeDescription) -> Registered:
        """See `ControllerLink`."""
        with _reached():
            generation = await self._controller.next_generation()
        self._controller.totals = node.totals
        self._drained = bool(node.drains)
        self._generation = generation
        self._controller.orders.set()
        return Registered(generation=generation)

    async def deregister(self) -> None:
        """See `ControllerLink`."""
        self._generation = None
        self._controller.totals = None

    async def heartbeat(self, beat: Beat) -> Healthy | NotFound:
        """See `ControllerLink`. It takes nothing back: nobody else could have run it."""
        return Healthy() if beat.generation == self._generation else NotFound()

    async def take_work(self, free: NodeView) -> Dispatch | Cancel | Nothing | NotFound:
        """See `ControllerLink`. Only the head of the queue is considered: what does not fit holds up all behind it."""
        if self._generation is None:
            return NotFound()
        with _reached():
            return await self._standing(free) or await self._next(free) or Nothing()

    async def _standing(self, free: NodeView) -> Dispatch | Cancel | None:
        """An order that the node has not shown that it has; what is to end there before what is to run."""
        controller = self._controller
        for attempt in [one for one in controller.unheld if free.has(one)]:
            del controller.unheld[attempt]
        for attempt, order in list(controller.unheeded.items()):
            if attempt in controller.unheld:  # there is nothing of it that could end
                continue
            if attempt in controller.insisted or not free.cancelling(attempt):
                controller.insisted.discard(attempt)
                return order
            del controller.unheeded[attempt]
        for attempt in list(controller.unheld):
            spec = await controller.dispatch_again(attempt, free)
            if spec is not None:
                return Dispatch(attempt=attempt, spec=spec)
        return None

    async def _next(self, free: NodeView) -> Dispatch | None:
        while not self._drained and (head := await self._controller.next_head()) is not None and free.fits(head.request):
            spec = await self._controller.dispatch(head.attempt)
            if spec is not None:
                return Dispatch(attempt=head.attempt, spec=spec)
        return None

    async def await_work(self) -> None:
        """See `ControllerLink`."""
        await self._controller.orders.wait()
        self._controller.orders.clear()

    async def report(self, report: AttemptReport) -> Acknowledged | RefusedForGood:
        """See `ControllerLink`."""
        with _reached():
            return (await self._controller.report(report)).answer

    async def drain(self, reasons: tuple[str, ...]) -> NotFound | None:
        """See `ControllerLink`."""
        if self._generation is None:
            return NotFound()
        self._drained = bool(reasons)
        self._controller.orders.set()
        return None


@contextmanager
def _reached() -> Iterator[None]:
    """A queue that cannot be read or written just now did not answer."""
    try:
        yield
    except (SystemCallError, RecordInvalid) as error:
        raise Unreachable(f"the queue does not answer: {error}") from error
