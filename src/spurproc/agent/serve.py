"""`spurd serve`: all parts of the agent, on one event loop. It owns its folder, takes up what there is, and then serves."""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.effects import Failpoint
from spurproc.agent.attempts.reconcile import reconcile
from spurproc.agent.attempts.surroundings import Blocking, Surroundings
from spurproc.agent.attempts.table import LIVE
from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.configuration.loading import LoadedConfiguration, Source
from spurproc.agent.controller.link import ControllerLink
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.registration import Registration
from spurproc.agent.fencing import fence, fence_hook, unnamed
from spurproc.agent.front_desk import FrontDesk
from spurproc.agent.inventory_turns import InventoryReader, InventoryTurns, known_inventory
from spurproc.agent.log import open_log
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.notify import ServiceManager
from spurproc.agent.node.ownership import Ownership, OwnershipState
from spurproc.agent.node.quarantine import review_quarantine, write_quarantine
from spurproc.agent.node.readiness import Readiness
from spurproc.agent.node.running_unit import UnitVerdict, find_running_unit
from spurproc.agent.node.state_dir import AGENT_DATABASE_NAME, CONTROLLER_DATABASE_NAME, SOCKET_NAME, StateDir
from spurproc.agent.node.storage import storage_warning
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.service.listening import Address
from spurproc.agent.service.server import Service
from spurproc.agent.store.database import Database
from spurproc.agent.store.drains import drains
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.agent.turns import Dispatching, Heartbeat, node_side
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.recorded.run import RecordedRun
from spurproc.errors import AlreadyOwned, OwnershipLost, SpurprocError

__all__ = ["Agent", "Parts", "serve"]


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


def serve(loaded: LoadedConfiguration, parts: Parts | None = None) -> int:
    """Serve until SIGTERM or SIGINT. The exit code; what it means stands in `ExitCode`."""
    configuration = loaded.configuration
    log = open_log(configuration.log_level, configuration.log_format)
    for warning in loaded.warnings:
        log.warning(warning)
    try:
        parents = loaded.origins["state_dir"].source is Source.DEFAULT
        with StateDir.open(configuration.state_dir, parents=parents) as state_dir, Ownership.take(state_dir) as ownership:
            return _serve_owned(Agent(configuration, state_dir, ownership, log, parts or Parts()))
    except AlreadyOwned as error:
        log.error("cannot start", why=str(error), owner=error.owner)  # noqa: TRY400 - no traceback for a fact
    except SpurprocError as error:
        log.error("cannot go on", why=str(error))  # noqa: TRY400
    return ExitCode.FAILED


def _serve_owned(agent: Agent) -> int:
    log = agent.log
    review = review_quarantine(agent.state_dir)
    for sentence in review.remaining:
        log.error("quarantined", why=sentence)
    if review.quarantined:
        return ExitCode.QUARANTINED
    if review.cleared:
        log.info("the quarantine is over: all of it is gone")
    storage = storage_warning(agent.state_dir.folder)
    if storage:
        log.warning(storage)
        agent.problems["storage"] = storage
    unit = find_running_unit(find_cgroup_root())
    if unit.verdict in (UnitVerdict.KILLS, UnitVerdict.UNKNOWN):
        log.warning(unit.sentence, unit=unit.unit)
        agent.problems["unit"] = unit.sentence
    return asyncio.run(agent.run())


class Agent:
    """One life of the agent. Borrows the folder and its ownership."""

    def __init__(self, configuration: Configuration, state_dir: StateDir, ownership: Ownership, log: Any, parts: Parts) -> None:
        self.configuration = configuration
        self.state_dir = state_dir
        self.ownership = ownership
        self.log = log
        self._parts = parts
        self.manager = ServiceManager.from_environment()
        self.problems: dict[str, str] = {}
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        """Until it is told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with AsyncExitStack() as held:
            try:
                await self._start(held)
            except OwnershipLost:
                self.around.lost.set()
            await self._until_stopped_or_lost()
            return await (self._end_lost() if self.around.lost.is_set() else self._end())

    async def _start(self, held: AsyncExitStack) -> None:
        started_at_s = time.time()
        database = await held.enter_async_context(_opened(partial(Database.open, self._path(AGENT_DATABASE_NAME), AGENT_SCHEMA)))
        self.controller = await LocalController.open(self._path(CONTROLLER_DATABASE_NAME))
        held.push_async_callback(self.controller.close)
        inventory = InventoryReader(self.configuration, root=self._parts.inventory_root)
        known = await known_inventory(database) or await inventory.first()
        blocking = Blocking(self.configuration.launch_concurrency)
        held.push_async_callback(blocking.close)
        self.around = Surroundings(
            configuration=self.configuration,
            state_dir=self.state_dir,
            ownership=self.ownership,
            database=database,
            resources=ResourceTable(known),
            link=self._parts.link(self.controller),
            blocking=blocking,
            log=self.log,
            drains=await database.read(drains),
            problems=self.problems,
            job_limits={resource.RLIMIT_NOFILE: self._raise_descriptors()},
        )
        self.attempts = Attempts(self.around, failpoint=self._parts.failpoint)
        held.push_async_callback(self.attempts.runner.close)
        found = await reconcile(self.around, self.attempts)
        changed = await self.controller.take_over(found.seen)
        for attempt in changed:
            self.log.warning("the queue is older than the step folders", attempt=str(attempt))
        self._prepare_turns(started_at_s)
        self.inventory = InventoryTurns(self.around, inventory, self.registration.changed)
        await self.inventory.begin()
        if self._parts.service is not None:
            await held.enter_async_context(self._parts.service(self))
        await self._listen(held)
        self._serve()

    async def _listen(self, held: AsyncExitStack) -> None:
        """Who asks is answered by what the agent knows, which by now is all that there is."""
        self.desk = FrontDesk(self.around, self.attempts, self.controller, self.registration)
        self.around.listeners.append(self.desk.tell)
        self._service = service = Service(self.desk, on_fault=self._faulty)
        path = self.configuration.socket_path
        address = Address.listen(self.state_dir.folder.fileno(), SOCKET_NAME) if path is None else Address.listen_at(path)
        held.callback(address.close)
        held.push_async_callback(service.close)
        service.start(address.listener)

    def _faulty(self, error: BaseException) -> None:
        self.log.error("a request has failed", error=repr(error), exc_info=error)

    @staticmethod
    def _raise_descriptors() -> tuple[int, int]:
        """Two for each live step, and those of peers. What it was before: jobs keep that."""
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
        return before

    def _path(self, name: str) -> str:
        return f"{self.state_dir.path}/{name}"

    def _prepare_turns(self, started_at_s: float) -> None:
        self.registration = Registration(
            self.around.link, node_side(self.around, self.attempts), interval_s=self.configuration.heartbeat_interval_s
        )
        self.around.drains_changed = self.registration.changed
        self.heartbeat = Heartbeat(
            around=self.around,
            registration=self.registration,
            readiness=Readiness(self.state_dir, self.ownership),
            manager=self.manager,
            socket=self.configuration.socket_path or self.state_dir.socket_path,
            started_at_s=started_at_s,
        )

    def _serve(self) -> None:
        for work in (
            self.registration.run,
            Dispatching(self.around, self.attempts, self.registration).run,
            self.heartbeat.run,
            self.inventory.run,
        ):
            self._tasks.append(asyncio.create_task(self._guarded(work)))
        self._notify("ready", f"{len(self.attempts)} attempts taken up")
        self.log.info("serves", state_dir=self.state_dir.path, attempts=len(self.attempts))

    async def _guarded(self, work: Callable[[], Any]) -> None:
        """A loop that fails is a fault of ours: the agent ends, the jobs live on, and a restart takes them up again."""
        try:
            await work()
        except OwnershipLost:
            self.around.lost.set()
        except Exception:
            self.log.exception("a loop of the agent has failed")
            self._failed = True
            self._stop.set()

    _failed = False

    def _notify(self, verb: str, *arguments: str) -> None:
        if self.manager is not None:
            with suppress(SpurprocError):
                getattr(self.manager, verb)(*arguments)

    async def _until_stopped_or_lost(self) -> None:
        waits = [asyncio.ensure_future(self._stop.wait()), asyncio.ensure_future(self.around.lost.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    # The end.

    async def _end(self) -> int:
        """Leave the jobs. The node is taken out of the controller's books only where nothing is left on it."""
        self._notify("stopping")
        await self._stop_loops()
        idle = self.attempts.owes_nothing
        self.around.halted = True
        if idle:
            with suppress(SpurprocError):
                await self.around.link.deregister()
        with suppress(SpurprocError):
            self.heartbeat.readiness.withdraw()
        self.log.info("ends", left=len(self.attempts), deregistered=idle)
        return self._quarantined() or (ExitCode.FAILED if self._failed else ExitCode.STOPPED)

    def _quarantined(self) -> int:
        """What lives and could be named by nobody after us is put down: nothing is served until it is gone."""
        trees = unnamed(self.attempts, self.state_dir.steps.path)
        if not trees:
            return 0
        for tree in trees:
            self.log.error("quarantined", step=tree.name, why=tree.reason)
        write_quarantine(self.state_dir, trees, at_s=time.time())
        return ExitCode.QUARANTINED

    async def _stop_loops(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end_lost(self) -> int:
        """Serve nothing, write nothing; where the folder was removed, end what was launched from it; and wait to be ended."""
        self.around.halted = True
        await self._stop_loops()
        await self._service.close()
        self.log.error("serves nothing any more", why=self.ownership.reason)
        fenced = False
        while not self._stop.is_set():
            if not fenced and self.ownership.check() is OwnershipState.REMOVED:
                fenced = True
                await asyncio.gather(
                    *(self._fence(attempt) for attempt in self.attempts),
                    *(self._fence_hook(name, run) for name, run in self.around.hooks.items()),
                )
                self.log.warning("what it had launched is ended", attempts=len(self.attempts))
            with suppress(TimeoutError):
                async with asyncio.timeout(self.configuration.heartbeat_interval_s):
                    await self._stop.wait()
        return ExitCode.OWNERSHIP_LOST

    async def _fence(self, attempt: Any) -> None:
        if attempt.state in LIVE:
            proof = await self.around.blocking.run(fence, attempt, self.configuration.kill_plan)
            self.log.warning("fenced", attempt=str(attempt.id), proof=proof)

    async def _fence_hook(self, name: str, run: RecordedRun) -> None:
        """Its recorder goes on in a folder that is gone; nobody would ever read what it writes."""
        proof = await self.around.blocking.run(fence_hook, run)
        self.log.warning("fenced", hook=name, proof=proof)


@asynccontextmanager
async def _opened(open_database: Callable[[], Database]) -> AsyncIterator[Database]:
    database = await asyncio.to_thread(open_database)
    try:
        yield database
    finally:
        await database.close()
