"""One life of the agent: its parts put together, what there is taken up, served until it is told to end, and left."""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.effects import Failpoint
from spurproc.agent.attempts.reconcile import reconcile
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.controller.link import ControllerLink
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.registration import Registration
from spurproc.agent.daemon.dispatching import Dispatching
from spurproc.agent.daemon.ending import fence_all, leave
from spurproc.agent.daemon.front_desk import FrontDesk
from spurproc.agent.daemon.heartbeat import Heartbeat
from spurproc.agent.daemon.inventory_reader import InventoryReader, known_inventory
from spurproc.agent.daemon.inventory_turns import InventoryTurns
from spurproc.agent.daemon.loops import Loops, first_of
from spurproc.agent.daemon.node_side import node_side
from spurproc.agent.daemon.taking_over import take_over
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.notify import ServiceManager
from spurproc.agent.node.ownership import Ownership, OwnershipState
from spurproc.agent.node.readiness import Readiness
from spurproc.agent.node.state_dir import (
    AGENT_DATABASE_NAME,
    AGENT_MARK_NAME,
    CONTROLLER_DATABASE_NAME,
    CONTROLLER_MARK_NAME,
    SOCKET_NAME,
    StateDir,
)
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.service.listening import Address
from spurproc.agent.service.server import Service
from spurproc.agent.store.database import Database
from spurproc.agent.store.drains import drains
from spurproc.agent.store.mark import MarkFile
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.errors import OwnershipLost, SpurprocError, SystemCallError

__all__ = ["Agent", "Parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the agent is put together with."""

    service: Callable[[Agent], AbstractAsyncContextManager[None]] | None = None
    """Entered once the agent knows what there is, and before it takes work; left when it ends."""
    failpoint: Failpoint | None = None
    """Called at each effect, for who makes a crash there."""
    link: Callable[[LocalController], ControllerLink] = LocalLink
    """The way to whoever gives it work."""
    inventory_root: str = "/"
    """Below which the files stand that tell what the node has."""


async def _nothing() -> None:
    """What there is to end before anything was taken up."""


class Agent:
    """Borrows the folder and its ownership."""

    def __init__(self, configuration: Configuration, state_dir: StateDir, ownership: Ownership, log: Any, parts: Parts) -> None:
        self.configuration = configuration
        self.state_dir = state_dir
        self.ownership = ownership
        self.log = log
        self.manager = ServiceManager.from_environment()
        self.problems: dict[str, str] = {}
        self._parts = parts
        self._stop, self._lost = asyncio.Event(), asyncio.Event()
        self._loops = Loops(log, stop=self._stop, lost=self._lost)
        self._fence: Callable[[], Awaitable[None]] = _nothing

    async def run(self) -> int:
        """Until it is told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with AsyncExitStack() as held, AsyncExitStack() as serving:
            try:
                await self._take_up(held)
                await self._begin(serving)
            except (SpurprocError, OSError):  # of whatever kind, in a folder that is gone
                if self.ownership.check() is OwnershipState.HELD:
                    raise
                self._lost.set()
            await first_of(self._stop, self._lost)
            if self._lost.is_set():
                return await self._end_lost(serving)
            return await self._end(serving)

    # The beginning.

    async def _take_up(self, held: AsyncExitStack) -> None:
        """All that there is, from its step folders and its store. Nobody is told of anything yet."""
        self.started_at_s = time.time()
        may_write = self.ownership.require
        opened = partial(Database.open, self._path(AGENT_DATABASE_NAME), AGENT_SCHEMA, may_write=may_write)
        database = await held.enter_async_context(_opened(opened))
        marks = [
            held.enter_context(MarkFile.open(self.state_dir.folder, name)) for name in (AGENT_MARK_NAME, CONTROLLER_MARK_NAME)
        ]
        self.controller = await LocalController.open(
            self._path(CONTROLLER_DATABASE_NAME),
            mark=marks[1],
            history_jobs=self.configuration.history_jobs,
            may_write=may_write,
        )
        held.push_async_callback(self.controller.close)
        reader = InventoryReader(self.configuration, root=self._parts.inventory_root)
        blocking = Blocking(self.configuration.launch_concurrency)
        held.push_async_callback(blocking.close)
        self.around = Surroundings(
            configuration=self.configuration,
            state_dir=self.state_dir,
            ownership=self.ownership,
            database=database,
            mark=marks[0],
            resources=ResourceTable(await known_inventory(database, self.log) or await reader.first()),
            link=self._parts.link(self.controller),
            blocking=blocking,
            log=self.log,
            drains=await database.read(drains),
            problems=self.problems,
            lost=self._lost,
            inventory_root=self._parts.inventory_root,
            job_limits={resource.RLIMIT_NOFILE: _raise_descriptors()},
        )
        self.attempts = Attempts(self.around, failpoint=self._parts.failpoint)
        self._fence = partial(fence_all, self.around, self.attempts)
        held.push_async_callback(self.attempts.runner.close)
        await self.attempts.finished.load()
        await self.attempts.held_back.begin()
        found = await reconcile(self.around, self.attempts)
        await take_over(self.around, self.attempts, self.controller, found.seen)
        for attempt in self.attempts:
            self.attempts.begin(attempt)
        self._prepare_turns(reader)
        await self.inventory.begin()

    def _path(self, name: str) -> str:
        return f"{self.state_dir.path}/{name}"

    def _prepare_turns(self, reader: InventoryReader) -> None:
        self.registration = Registration(
            self.around.link, node_side(self.around, self.attempts), interval_s=self.configuration.heartbeat_interval_s
        )
        self.around.drains_changed = self.registration.changed
        self.inventory = InventoryTurns(self.around, reader, self.registration.changed)
        self.heartbeat = Heartbeat(
            around=self.around,
            registration=self.registration,
            readiness=Readiness(self.state_dir, self.ownership),
            manager=self.manager,
            socket=self.configuration.socket_path or self.state_dir.socket_path,
            started_at_s=self.started_at_s,
        )

    async def _begin(self, serving: AsyncExitStack) -> None:
        """Answer who asks, by what the agent knows, which by now is all that there is; and take work."""
        if self._parts.service is not None:
            await serving.enter_async_context(self._parts.service(self))
        self._listen(serving)
        serving.push_async_callback(self._loops.close)
        dispatching = Dispatching(self.around, self.attempts, self.registration)
        self._loops.begin(self.registration.run, dispatching.run, self.heartbeat.run, self.inventory.run)
        self._loops.begin(self.attempts.held_back.run, self.attempts.leaderless.run, self.attempts.foreign.run)
        self._loops.begin(self.attempts.overdue.run)
        self._notify("ready", f"{len(self.attempts)} attempts taken up")
        self.log.info("serves", state_dir=self.state_dir.path, attempts=len(self.attempts))

    def _listen(self, serving: AsyncExitStack) -> None:
        self.desk = FrontDesk(self.around, self.attempts, self.controller, self.registration)
        self.around.listeners.append(self.desk.tell)
        service = Service(self.desk, on_fault=self._faulty)
        path = self.configuration.socket_path
        address = Address.listen(self.state_dir.folder.fileno(), SOCKET_NAME) if path is None else Address.listen_at(path)
        serving.callback(address.close)
        serving.push_async_callback(service.close)
        service.start(address.listener)

    def _faulty(self, error: BaseException) -> None:
        self.log.error("a request has failed", error=repr(error), exc_info=error)

    def _notify(self, verb: str, *arguments: str) -> None:
        if self.manager is not None:
            with suppress(SpurprocError):
                getattr(self.manager, verb)(*arguments)

    # The end.

    async def _end(self, serving: AsyncExitStack) -> int:
        """The jobs go on. That the folder was lost may be found out only here."""
        try:
            self.ownership.require()
            self._notify("stopping")
            await serving.aclose()
            code = await leave(self.around, self.attempts)
        except OwnershipLost:
            return await self._end_lost(serving)
        with suppress(SpurprocError):
            self.heartbeat.readiness.withdraw()
        return ExitCode.FAILED if code is ExitCode.STOPPED and self._loops.failed else code

    async def _end_lost(self, serving: AsyncExitStack) -> int:
        """Serve nothing, write nothing; where the folder was removed, end what was launched from it; and wait to be ended."""
        self._lost.set()
        await serving.aclose()
        self.log.error("serves nothing any more", why=self.ownership.reason)
        while True:
            if self._is_removed():
                fence, self._fence = self._fence, _nothing
                await fence()
            if self._stop.is_set():
                return ExitCode.OWNERSHIP_LOST
            with suppress(TimeoutError):
                async with asyncio.timeout(self.configuration.heartbeat_interval_s):
                    await self._stop.wait()

    def _is_removed(self) -> bool:
        """Not while that cannot be told: it is asked again."""
        with suppress(SystemCallError):
            return self.ownership.check() is OwnershipState.REMOVED
        return False


def _raise_descriptors() -> tuple[int, int]:
    """Two for each live step, and those of peers. What it was before: jobs keep that."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    return before


@asynccontextmanager
async def _opened(open_database: Callable[[], Database]) -> AsyncIterator[Database]:
    database = await asyncio.to_thread(open_database)
    try:
        yield database
    finally:
        await database.close()
