"""The built-in controller killed at each commit: who asks once more gets the same answer, and nothing is there twice or lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spurproc.agent.controller.link import Acknowledged, AttemptReport, Dispatch
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.ending import CancelAnswer
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.store.transaction import CommitPoint, Failpoint
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, node, report_of, wanting
from tests.pidfds import open_pidfd

_CHILD = """
import asyncio, sys, threading
from tests.kernel.test_agent_controller_crash import ACTS, Scene
path, name, still = sys.argv[1:]
begun = []

def point(reached):
    if begun and reached.value == still:
        print("still", flush=True)
        threading.Event().wait()

async def main():
    scene = await Scene.open(path, failpoint=point)
    await ACTS[name].before(scene)
    begun.append(True)
    await ACTS[name].act(scene)

asyncio.run(main())
"""


@dataclass
class Scene:
    """A controller with one job, and a node that holds nothing of it."""

    controller: LocalController
    link: LocalLink

    @classmethod
    async def open(cls, path: str | Path, failpoint: Failpoint | None = None) -> Scene:
        """Registered."""
        controller = await LocalController.open(path, clock=lambda: 1.0, failpoint=failpoint)
        link = LocalLink(controller)
        await link.register(node())
        return cls(controller, link)

    async def submitted(self) -> int:
        """By its key: the same job each time."""
        return (await self.controller.submit(wanting(1), submitted_by=0, key="one")).job_id

    async def dispatched(self) -> AttemptId:
        """The order for it."""
        await self.submitted()
        order = await self.link.take_work(View())
        assert isinstance(order, Dispatch)
        return order.attempt

    async def reported(self) -> AttemptReport:
        """Its end."""
        await self.dispatched()
        report = report_of(AttemptId(1, 1), 5)
        assert await self.link.report(report) == Acknowledged()
        return report


@dataclass(frozen=True)
class Act:
    """What is under way when it is killed, what has to be there before, and what comes of it in the end."""

    before: Callable[[Scene], Awaitable[object]]
    act: Callable[[Scene], Awaitable[object]]
    state: JobState
    attempts: int


async def nothing(scene: Scene) -> None:
    """An empty queue."""


async def reported_again(scene: Scene) -> None:
    """As an agent does until it is answered."""
    assert await scene.link.report(report_of(AttemptId(1, 1), 5)) == Acknowledged()


async def cancelled(scene: Scene) -> None:
    """In the queue."""
    assert await scene.controller.cancel(1) in (CancelAnswer.ENDED_IN_QUEUE, CancelAnswer.OVER)


async def cancelled_running(scene: Scene) -> None:
    """On the node."""
    assert await scene.controller.cancel(1, run_attempt=1) is CancelAnswer.ASKED


ACTS = {
    "submit": Act(nothing, Scene.submitted, JobState.QUEUED, 0),
    "dispatch": Act(Scene.submitted, Scene.dispatched, JobState.DISPATCHED, 1),
    "report": Act(Scene.dispatched, reported_again, JobState.ENDED, 1),
    "cancel": Act(Scene.submitted, cancelled, JobState.ENDED, 1),
    "cancel-running": Act(Scene.dispatched, cancelled_running, JobState.DISPATCHED, 1),
}


def kill_at(path: Path, name: str, point: CommitPoint) -> None:
    command = [sys.executable, "-c", _CHILD, str(path), name, point.value]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        pidfd = open_pidfd(process.pid)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"still\n"
        finally:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


@pytest.mark.parametrize("point", list(CommitPoint), ids=lambda point: point.name)
@pytest.mark.parametrize("name", ACTS)
def test_asked_once_more_it_is_as_if_nothing_had_happened(tmp_path: Path, name: str, point: CommitPoint) -> None:
    path, act = tmp_path / "controller.db", ACTS[name]
    kill_at(path, name, point)

    async def after() -> None:
        scene = await Scene.open(path)
        before = await scene.controller.jobs()
        assert len(before) == (0 if name == "submit" and point is not CommitPoint.AFTER_COMMIT else 1)
        await act.act(scene)
        await act.act(scene)
        (job,) = await scene.controller.jobs()
        assert (job.job_id, job.run_attempt, job.state) == (1, 1, act.state)
        attempts = await scene.controller.attempts(1)
        assert len(attempts) == act.attempts
        assert (name == "cancel-running") == any(one.cancel is not None and one.report is None for one in attempts)
        assert (await scene.controller.submit(wanting(1), submitted_by=0)).job_id == 2
        await scene.controller.close()

    asyncio.run(after())
