"""Who wants to know of a job is woken when it may have moved on. What has become of it, it looks up itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["JobNews"]


class JobNews:
    """Used from one event loop. Nothing is kept for a job that nobody waits for."""

    def __init__(self) -> None:
        self._events: dict[int, set[asyncio.Event]] = {}

    def tell(self, job_id: int) -> None:
        """It may stand otherwise than before. Never blocks, and costs nothing where nobody listens."""
        for event in self._events.get(job_id, ()):
            event.set()

    @contextmanager
    def of(self, job_id: int) -> Iterator[asyncio.Event]:
        """Set by each `tell` from now on: clear it, then look, then wait for it, and nothing is missed."""
        event = asyncio.Event()
        self._events.setdefault(job_id, set()).add(event)
        try:
            yield event
        finally:
            listeners = self._events[job_id]
            listeners.discard(event)
            if not listeners:
                del self._events[job_id]
