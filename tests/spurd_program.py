"""`spurd serve` with a door for tests: a socket in the state folder that takes one line at a time, and points to crash at.

`python -m tests.spurd_program [--SETTING VALUE]...`. SPURD_TEST_CRASH: see `tests.agent_crash.points`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from spurproc.agent import boot_clock
from spurproc.agent.attempts import reporting, step, unanswered
from spurproc.agent.attempts.effects import Failpoint
from spurproc.agent.configuration.loading import load_configuration
from spurproc.agent.controller.link import Acknowledged, AttemptReport, ControllerLink, RefusedForGood, Unreachable
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.daemon import inventory_reader
from spurproc.agent.daemon.agent import Agent, Parts
from spurproc.agent.daemon.inventory_turns import InventoryTurns
from spurproc.agent.daemon.serve import serve
from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.client import connection
from spurproc.client.spec import StepSpec
from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode
from tests.remote_wire import RemoteLink

DOOR = "door.sock"
CRASH_VARIABLE = "SPURD_TEST_CRASH"
ROOT_VARIABLE = "SPURD_TEST_ROOT"
CPUS_VARIABLE = "SPURD_TEST_CPUS"
GPUS_VARIABLE = "SPURD_TEST_GPUS"
ODD_VARIABLE = "SPURD_TEST_ODD"
REMOTE_VARIABLE = "SPURD_TEST_REMOTE"
LATE_VARIABLE = "SPURD_TEST_LATE"
"""A FIFO: at a start the queue does not answer before there is a line to read."""
AGAIN_VARIABLE = "SPURD_TEST_AGAIN_S"
"""After how long a report is offered again that was refused for good."""
HUNG_VARIABLE = "SPURD_TEST_HUNG_S"
"""After how long a supervisor that does not answer is ended, and taken for one."""
AHEAD_VARIABLE = "SPURD_TEST_AHEAD_S"
"""How long ago, beyond the truth, the hooks that run were begun."""


@asynccontextmanager
async def _door(agent: Agent) -> AsyncIterator[None]:
    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        try:
            answer: Any = {"answer": await _answer(agent, line.rstrip(b"\n"))}
        except SpurprocError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()
        await writer.wait_closed()

    path = f"{agent.state_dir.path}/{DOOR}"
    if os.path.lexists(path):
        os.unlink(path)
    agent.around.listeners.append(_moved)
    server = await asyncio.start_unix_server(serve_one, path, limit=1 << 24)
    if "SPURD_TEST_READY" in os.environ:
        os.close(int(os.environ["SPURD_TEST_READY"]))
    try:
        yield
    finally:
        server.close()


async def _answer(agent: Agent, line: bytes) -> Any:
    word, _, rest = line.partition(b" ")
    match word:
        case b"submit":
            await agent.registration.registered.wait()
            return (await agent.controller.submit(decode(rest, JobSpec, "a spec"), submitted_by=0)).job_id
        case b"submit-as" | b"submit-now-as":
            if word == b"submit-as":
                await agent.registration.registered.wait()
            key, _, content = rest.partition(b" ")
            return (await agent.controller.submit(decode(content, JobSpec, "a spec"), submitted_by=0, key=key.decode())).job_id
        case b"ended":
            job = await agent.controller.ended(int(rest))
            report = (await agent.controller.attempts(job.job_id))[-1].report
            return None if report is None else {"end": str(report.end), "cancelled": report.cancelled, "fault": report.node_fault}
        case b"history":
            return [_told(one.report) for one in await agent.controller.attempts(int(rest))]
        case b"job":
            job = await agent.controller.job(int(rest))
            return [job.state.value, job.run_attempt, job.requeue_wanted]
        case b"refused":
            return await _refused(agent, AttemptId.parse(rest.decode()))
        case b"jobs":
            return [job.job_id for job in await agent.controller.jobs()]
        case b"crash":
            sys.modules["tests.agent_crash.points"].arm(rest.decode())
            return None
        case b"passed":
            return sys.modules["tests.agent_crash.points"].passed()
        case b"faults":
            return [one.report.node_fault or "" for one in await agent.controller.attempts(int(rest)) if one.report]
        case b"cancel":
            return (await agent.controller.cancel(int(rest), uid=0, why="by the test")).value
        case b"requeue":
            return str((await agent.controller.requeue(int(rest))).attempt)
        case b"attempts":
            return {str(one.id): {"state": one.state.value, "held": one.held_because} for one in agent.attempts}
        case b"claims":
            return {str(key): list(claim.allocation.cpus) for key, claim in agent.around.resources.claims.items()}
        case b"drains":
            return [drain.why for drain in agent.around.drains]
        case b"drain" | b"undrain":
            return await (agent.desk.drain("by the test", uid=0) if word == b"drain" else agent.desk.undrain(uid=0))
        case b"node":  # what it has, and what of that is free
            status = agent.desk.status()
            return [msgspec.to_builtins(part) for part in (status.totals, status.free)]
        case b"problems":
            return list(agent.desk.status().problems)
        case b"held":
            return [one.why for one in agent.desk.status().held]
        case b"alloc":
            reserved = await agent.desk.alloc(ResourceRequest(cpus=int(rest)), uid=0)
            return [str(reserved.attempt), list(reserved.allocation.cpus)]
        case b"release":
            return await agent.desk.release(AttemptId.parse(rest.decode()))
        case b"inventory":
            await agent.inventory.turn()
            return [list(agent.around.resources.inventory.cpus), [str(gpu) for gpu in agent.around.resources.inventory.gpus]]
        case b"until":  # until an attempt stands in one of these states: `until 1.1 running ended`
            return await _until(agent, *rest.decode().split())
        case b"suspend":
            return await agent.desk.suspend(AttemptId.parse(rest.decode()), uid=0)
        case b"resume":
            return await agent.desk.resume(AttemptId.parse(rest.decode()), uid=0)
    raise AssertionError(line)


def _told(report: Any) -> str | None:
    return None if report is None else str(report.end)


async def _until(agent: Agent, attempt: str, *states: str) -> str:
    """`none`: it is forgotten."""
    while (state := _state(agent, attempt)) not in states:
        moved = asyncio.get_running_loop().create_future()
        _WAITING.append(moved)
        await moved
    return state


async def _refused(agent: Agent, attempt: AttemptId) -> None:
    """Until its report has been."""
    while (known := agent.attempts.find(attempt)) is None or not known.refusals:
        moved = asyncio.get_running_loop().create_future()
        _WAITING.append(moved)
        await moved


_WAITING: list[asyncio.Future[None]] = []


def _state(agent: Agent, attempt: str) -> str:
    return next((one.state.value for one in agent.attempts if str(one.id) == attempt), "none")


def _moved(_: object) -> None:
    while _WAITING:
        moved = _WAITING.pop()
        if not moved.done():
            moved.set_result(None)


class _OddLink(LocalLink):
    """Takes no report while the file `unreachable` stands in the state folder's parent, and refuses those named in `refused`."""

    async def report(self, report: AttemptReport) -> Acknowledged | RefusedForGood:
        folder = Path(os.environ[ODD_VARIABLE])
        with (folder / "offered").open("a") as offered:
            offered.write(f"{report.attempt}\n")
        if (folder / "unreachable").exists():
            raise Unreachable("the test says so")
        refused = folder / "refused"
        if refused.exists() and str(report.attempt) in refused.read_text().split():
            return RefusedForGood(why="the test says so")
        return await super().report(report)


def _failpoint(state_dir: str) -> Failpoint | None:
    """Where this agent may be struck, if anywhere: what stands around its functions then is in nobody else's way."""
    if CRASH_VARIABLE not in os.environ:
        return None
    from tests.agent_crash import points  # noqa: PLC0415 - it is more than half of what else is imported

    points.install(state_dir)
    if os.environ[CRASH_VARIABLE]:
        points.arm(os.environ[CRASH_VARIABLE])
    return points.at_effect


def have_cpus(count: int) -> None:
    """A node with more CPUs than this machine has: they are given out by their numbers, and jobs run on those that there are."""
    real = step.step_of_job  # type: ignore[attr-defined]

    def on_real_cpus(spec: JobSpec, *arguments: Any) -> StepSpec:
        made = real(spec, *arguments)
        assert made.plan is not None
        return replace(made, plan=replace(made.plan, affinity=os.sched_getaffinity(0)), cgroup_limits=CgroupLimits())

    step.step_of_job = on_real_cpus  # type: ignore[assignment,attr-defined]
    gpus = tuple(
        Gpu(kind="nvidia", pci_address=f"0000:{number + 1:02x}:00.0", uuid=f"GPU-{number}")
        for number in range(int(os.environ.get(GPUS_VARIABLE, "0")))
    )
    there = Inventory(cpus=tuple(range(count)), memory_bytes=1 << 34, gpus=gpus)
    inventory_reader.scan = lambda _: there  # type: ignore[assignment,attr-defined]


def answer_late(gate: str) -> None:
    """A node that takes its time to be read."""
    real = InventoryTurns.begin

    async def late(self: InventoryTurns) -> None:
        await real(self)
        await asyncio.to_thread(_read_line, gate)

    InventoryTurns.begin = late  # type: ignore[method-assign]


def _read_line(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        file.readline()


def _link() -> Callable[[LocalController], ControllerLink]:
    if REMOTE_VARIABLE in os.environ:
        return lambda _: RemoteLink(os.environ[REMOTE_VARIABLE])
    return _OddLink if ODD_VARIABLE in os.environ else LocalLink


def main() -> int:
    if CPUS_VARIABLE in os.environ:
        have_cpus(int(os.environ[CPUS_VARIABLE]))
    if LATE_VARIABLE in os.environ:
        answer_late(os.environ[LATE_VARIABLE])
    reporting._REFUSED_FIRST_S = float(os.environ.get(AGAIN_VARIABLE, reporting._REFUSED_FIRST_S))
    if HUNG_VARIABLE in os.environ:
        unanswered._ENDED_AFTER_S = unanswered._HELLO_WITHIN_S = connection._HELLO_WITHIN_S = float(os.environ[HUNG_VARIABLE])
    if AHEAD_VARIABLE in os.environ:
        true, ahead_s = boot_clock.boot_s, float(os.environ[AHEAD_VARIABLE])
        boot_clock.boot_s = lambda: true() + ahead_s
    words = sys.argv[1:]
    flags = {flag[2:].replace("-", "_"): value for flag, value in zip(words[::2], words[1::2], strict=True)}
    return serve(
        load_configuration(flags, environment={}),
        Parts(
            service=_door,
            failpoint=_failpoint(flags["state_dir"]),
            inventory_root=os.environ.get(ROOT_VARIABLE, "/"),
            link=_link(),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
