"""An agent that runs nothing: the real service, on the real controller, with a desk that a test moves by what it says on stdin.

Each line is a JSON list: a verb and its arguments. Each is answered by `ok` on stdout. It ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spurproc.agent.controller.link import AttemptReport, Dispatch, NodeDescription
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.output_pattern import PatternValues, expand_pattern
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.bounds import Bounds
from spurproc.agent.service.desk import AttemptNow, Places, Reservation
from spurproc.agent.service.listening import Address
from spurproc.agent.service.news import JobNews
from spurproc.agent.service.replies import NodeStatus
from spurproc.agent.service.server import Service
from spurproc.agent.service.shown import DrainView, HeldView
from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import AlreadyGone, Busy, OwnershipLost
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import RawText, raw_bytes, raw_text
from spurproc.version import VERSION

_TOTALS = Inventory(cpus=(0, 1, 2, 3), memory_bytes=8 << 30, generic={"licence": 2})


class FixedDesk:
    """A `Desk` without an agent behind it."""

    node = "testnode"
    script_limit_bytes = 4 << 20
    output_pattern = "job-%j.%a.out"
    kill_plan = KillPlan.default()

    def __init__(self, controller: LocalController) -> None:
        self.controller = controller
        self.news = JobNews()
        self.now: dict[AttemptId, AttemptNow] = {}
        self.uids: dict[AttemptId, int] = {}
        self.drained: DrainView | None = None
        self.reserved: dict[AttemptId, ResourceRequest] = {}
        self.asked: list[str] = []
        self.not_enforced: Mapping[str, str] = {}
        self.time_limit_s: float | None = None
        self.registered = asyncio.Event()
        self.lost = ""

    # What the service sees of it while it chooses work.

    def fits(self, request: ResourceRequest) -> bool:
        """Always: nothing runs."""
        return True

    def has(self, attempt: AttemptId) -> bool:
        """What it was given."""
        return attempt in self.now

    def cancelling(self, attempt: AttemptId) -> bool:
        """So that no order comes before the next job."""
        return True

    # The desk.

    async def await_registered(self) -> None:
        """However long it takes. Says that somebody waits."""
        if not self.registered.is_set():
            print("waits", flush=True)
        await self.registered.wait()

    def require_owned(self) -> None:
        """Unless the test has taken it away."""
        if self.lost:
            raise OwnershipLost(self.lost)

    def attempt(self, attempt: AttemptId) -> AttemptNow | None:
        """As the test has moved it."""
        return self.now.get(attempt)

    def places(self, attempt: AttemptId, spec: JobSpec) -> Places:
        """By the patterns."""
        folder = raw_bytes(spec.work_dir or "/nowhere")
        values = PatternValues(runtime_id=attempt.step(0), job_name=spec.name, user=spec.user, node=self.node)

        def path(pattern: RawText) -> RawText:
            return raw_text(os.path.join(folder, expand_pattern(pattern, values)))

        stdout = path(spec.stdout)
        return Places(work_dir=raw_text(folder), stdout=stdout, stderr=stdout if spec.stderr is None else path(spec.stderr))

    async def suspend(self, attempt: AttemptId, *, uid: int) -> None:
        """Of an attempt that it has."""
        self._moved(attempt, "suspended")

    async def resume(self, attempt: AttemptId, *, uid: int) -> None:
        """The same."""
        self._moved(attempt, "running")

    def _moved(self, attempt: AttemptId, phase: str) -> None:
        if attempt not in self.now:
            raise AlreadyGone(3, f"cannot find attempt {attempt}: it does not run")
        self.move(attempt, phase)

    async def drain(self, why: str, *, uid: int) -> bool:
        """Kept in memory."""
        changed = self.drained is None
        self.drained = DrainView(kind="operator", cause="operator", why=why, since=time.time())
        return changed

    async def undrain(self, *, uid: int) -> bool:
        """The same."""
        changed = self.drained is not None
        self.drained = None
        return changed

    def drains(self, *, sees_all: bool) -> tuple[DrainView, ...]:
        """The operator's: who sees all makes no difference."""
        return () if self.drained is None else (self.drained,)

    def status(self, *, sees_all: bool) -> NodeStatus:
        """All attempts are held."""
        held = [HeldView(attempt=attempt, uid=self.uids[attempt], why="it cannot be ended") for attempt in self.now]
        return NodeStatus(
            node=self.node,
            version=VERSION,
            boot_id="b" * 32,
            agent_uid=os.geteuid(),
            started_at=time.time(),
            registered=True,
            totals=_TOTALS,
            free=_TOTALS,
            drains=self.drains(sees_all=sees_all),
            jobs={"running": len(self.now)},
            held=tuple(held),
            problems=("a reading failed: \x1b[31mred",) if sees_all else (),
        )

    async def alloc(self, request: ResourceRequest, *, uid: int) -> Reservation:
        """One at a time."""
        if self.reserved:
            raise Busy(11, "cannot reserve: 4 of 4 CPUs are in use")
        attempt = AttemptId(10**6 + uid, 1)
        self.reserved[attempt] = request
        return Reservation(attempt=attempt, allocation=Allocation(cpus=(0,)), env={"SPURD_CPUS": "0"})

    async def release(self, attempt: AttemptId) -> None:
        """Says so on stdout."""
        self.reserved.pop(attempt, None)
        print("released", flush=True)

    def move(self, attempt: AttemptId, phase: str) -> None:
        """As an agent that has made it durable."""
        self.now[attempt] = AttemptNow(phase=phase, started_at=time.time(), allocation=Allocation(cpus=(1, 2)))
        self.news.tell(attempt.job_id)


class Orders:
    """What the test has it do."""

    def __init__(self, desk: FixedDesk, link: LocalLink) -> None:
        self._desk = desk
        self._link = link

    async def dispatch(self, phase: str = "running") -> str:
        """Take the next job."""
        work = await self._link.take_work(self._desk)
        assert isinstance(work, Dispatch), work
        self._desk.uids[work.attempt] = work.spec.uid
        self._desk.move(work.attempt, phase)
        return str(work.attempt)

    async def enforce_not(self, controller: str, why: str) -> str:
        """From now on."""
        self._desk.not_enforced = {**self._desk.not_enforced, controller: why}
        return why

    async def register(self) -> str:
        """Once, unless it was from the beginning."""
        await self._link.register(NodeDescription(node="testnode", boot_id="b" * 32, version=VERSION, totals=_TOTALS))
        self._desk.registered.set()
        return "testnode"

    async def shrink(self, cpus: int) -> str:
        """To so many CPUs."""
        totals = Inventory(cpus=tuple(range(cpus)))
        await self._link.register(NodeDescription(node="testnode", boot_id="b" * 32, version=VERSION, totals=totals))
        return str(cpus)

    async def limit_time(self, time_limit_s: float) -> str:
        """The node's own, from now on."""
        self._desk.time_limit_s = time_limit_s
        return str(time_limit_s)

    async def lose(self, why: str) -> str:
        """From now on it does not own its folder; empty: it does."""
        self._desk.lost = why
        return why

    async def move(self, attempt: str, phase: str) -> str:
        """Let it do something else."""
        self._desk.move(AttemptId.parse(attempt), phase)
        return attempt

    async def end(self, attempt: str, kind: str, number: int = 0) -> str:
        """Report how it ended."""
        named = AttemptId.parse(attempt)
        self._desk.now.pop(named, None)
        await self._link.report(AttemptReport(attempt=named, end=_end(kind, number), started_at=1.0, ended_at=2.0))
        self._desk.news.tell(named.job_id)
        return attempt


def _end(kind: str, number: int) -> ExitInfo:
    match kind:
        case "exited":
            return ExitInfo(kind=ExitKind.EXITED, source=ExitSource.WAITED, observed_at=2.0, code=number)
        case "signaled":
            return ExitInfo(kind=ExitKind.SIGNALED, source=ExitSource.WAITED, observed_at=2.0, signal=number)
        case "not-started":
            return ExitInfo.not_started("EXEC", number)
        case _:
            return ExitInfo.unknown("nobody saw it")


async def _serve(folder: Path, options: dict[str, Any]) -> None:
    controller = await LocalController.open(folder / "controller.db")
    link = LocalLink(controller)
    desk = FixedDesk(controller)
    orders = Orders(desk, link)
    if not options.pop("unregistered", False):
        await orders.register()
    faults: list[BaseException] = []
    service = Service(desk, on_fault=faults.append, bounds=Bounds(**options))
    address = Address.listen_at(str(folder / "control.sock"))
    service.start(address.listener)
    print("serving", flush=True)
    with contextlib.suppress(EOFError):
        await _obey(orders)
    await service.close()
    address.close()
    await controller.close()
    if faults:
        raise faults[0]


async def _obey(orders: Orders) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        verb, *arguments = json.loads(line)
        print("ok", await getattr(orders, verb)(*arguments), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), json.loads(sys.argv[2])))
