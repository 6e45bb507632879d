"""Databases in a folder that is not the agent's any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spurproc.agent.controller.link import Unreachable
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.controller.registration import NodeSide, Registration
from spurproc.errors import OwnershipLost
from tests.agent_values import node, wanting


def test_nothing_is_written_once_that_is_forbidden(tmp_path: Path) -> None:
    """All who want to are told why, at once; what is there can be read; and nothing is written later."""
    lost: list[str] = []

    def may_write() -> None:
        if lost:
            raise OwnershipLost(lost[0])

    async def scene() -> None:
        controller = await LocalController.open(tmp_path / "controller.db", may_write=may_write)
        await LocalLink(controller).register(node())
        await controller.submit(wanting(1), submitted_by=0)
        lost.append("the folder was removed")
        wanted = [controller.submit(wanting(1), submitted_by=0), controller.cancel(1, uid=0, why="by the test")]
        refused = await asyncio.gather(*wanted, return_exceptions=True)
        assert [(type(error), str(error)) for error in refused] == [(OwnershipLost, lost[0])] * 2
        jobs = await controller.jobs()
        assert [(job.job_id, job.state) for job in jobs] == [(1, JobState.QUEUED)]
        lost.clear()
        assert (await controller.submit(wanting(1), submitted_by=0)).job_id == 2
        await controller.close()

    asyncio.run(scene())


def test_an_agent_that_does_not_own_its_folder_says_nothing_to_its_controller() -> None:
    """Another may speak for the node by now; while that cannot be told it is as if nobody answered."""
    answers = [Unreachable("it cannot be told"), OwnershipLost("the folder was removed")]
    reached: list[bool] = []

    def may_speak() -> None:
        raise answers.pop(0)

    async def at_once(_event: asyncio.Event, _seconds: float) -> None:
        return

    async def scene() -> None:
        side = NodeSide(describe=node, running=tuple, reclaim=lambda _: None, reached=reached.append, may_speak=may_speak)
        nobody = None
        registration = Registration(nobody, side, interval_s=1.0, pause=at_once)  # type: ignore[arg-type]  # it is never asked
        with pytest.raises(OwnershipLost):
            await registration.run()

    asyncio.run(scene())
    assert reached == [False]
