"""The threads of the agent that may block: what takes as long as a job has made it keeps no launch, and no end, waiting."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import ParamSpec, TypeVar

from spurproc.agent.lone_thread import begun
from spurproc.errors import SystemCallError

__all__ = ["Blocking"]

P = ParamSpec("P")
T = TypeVar("T")

_REMOVALS_MOST = 2
_WALKS_MOST = 64


class Blocking:
    """Threads for what blocks: a few for launches, looks, folders; and apart from them those for what a job can draw out."""

    def __init__(self, threads: int) -> None:
        """Raises SystemCallError where there cannot be so many threads."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="blocking")
        _begin_threads(self._pool, threads)
        self._removals = asyncio.Semaphore(_REMOVALS_MOST)
        self._walks = asyncio.Semaphore(_WALKS_MOST)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What it returns or raises, on one of the threads; in turn, where all are taken."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))

    async def run_patiently(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for what takes as long as a job has made it, such as the removal of its files: no launch waits for that.

        Nor does the end of the agent: whatever is done here is done again at the next start.
        """
        async with self._removals:
            return await begun(partial(function, *args, **kwargs))

    async def walk(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run_patiently`, for what takes as long as a kill plan: nobody else's end waits for the grace of one."""
        async with self._walks:
            return await begun(partial(function, *args, **kwargs))

    async def close(self) -> None:
        """Take nothing more, and return once all that `run` has begun is done: what it launches is launched by an owner."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)


def _begin_threads(pool: ThreadPoolExecutor, threads: int) -> None:
    """Now: one that is to begin in the middle of a fork bomb fails, with its work in the queue already."""
    meeting = Barrier(threads + 1)
    try:
        for _ in range(threads):
            pool.submit(meeting.wait)
        meeting.wait()
    except RuntimeError as error:
        meeting.abort()
        raise SystemCallError(errno.EAGAIN, f"cannot begin {threads} threads: {error}") from None
