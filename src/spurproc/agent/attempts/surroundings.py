"""What all attempts of a node share: its folders, its store, its resources, and the threads that may block for them."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Barrier
from typing import Any, ParamSpec, TypeVar

from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.controller.link import ControllerLink
from spurproc.agent.inventory.lone_thread import begun
from spurproc.agent.node.ownership import Ownership
from spurproc.agent.node.state_dir import StateDir
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.store.database import Database
from spurproc.agent.store.drains import Drain
from spurproc.agent.store.mark import MarkFile
from spurproc.core.recorded.run import RecordedRun
from spurproc.errors import SystemCallError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Blocking", "Surroundings"]

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


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """Borrows all of it. `log` is a structlog logger."""

    configuration: Configuration
    state_dir: StateDir
    ownership: Ownership
    database: Database
    mark: MarkFile
    """Beside the database."""
    resources: ResourceTable
    link: ControllerLink
    blocking: Blocking
    log: Any
    drains: tuple[Drain, ...] = ()
    """Those that stand, as the store has them."""
    problems: dict[str, str] = field(default_factory=dict)
    """What somebody should be told of, by what it is about."""
    drains_changed: Callable[[], None] = lambda: None
    listeners: list[Callable[[AttemptId], None]] = field(default_factory=list)
    """Told of each attempt that has moved on, once that is durable."""
    hooks: dict[str, RecordedRun] = field(default_factory=dict)
    """Those that run, by the name of their folder: held, so that they can be ended where that was removed."""
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when resources were given back."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last of them was."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the controller answers."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was found that the state folder is not ours any more."""
    job_limits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Limits that the agent has changed for itself, as jobs and hooks get them all the same."""
    inventory_root: str = "/"
    """Below which the files of this node stand."""
    clock: Callable[[], float] = time.time
    reports: int = 0
    """Of how many attempts the store says that their report was taken."""
    ending: bool = False
    """The agent is on its way out."""

    @property
    def halted(self) -> bool:
        """Whether nothing is begun any more: the agent ends, or does not own its folder."""
        return self.ending or self.lost.is_set()

    @property
    def steps_inode(self) -> tuple[int, int]:
        """Which folder the steps are launched into, whatever its path leads to."""
        facts = os.fstat(self.state_dir.steps.fileno())
        return facts.st_dev, facts.st_ino
