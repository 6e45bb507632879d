"""What is next in the queue, asked by several at once, by who goes away, and while the disk gives nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.controller.link import Dispatch, Unreachable
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.errors import SystemCallError
from tests.agent_values import View, node, wanting


class Gated:
    """The look for the next job stands still until it is let go, or fails."""

    def __init__(self, controller: LocalController, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self._read: Callable[..., Awaitable[Any]] = controller._database.read
        monkeypatch.setattr(controller._database, "read", self.read)

    async def read(self, body: Callable[..., Any]) -> Any:
        """As that of the database."""
        self.begun.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._read(body)


Scene = Callable[[LocalController, LocalLink, Gated], Awaitable[None]]


def in_scene(path: Path, monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    """With one job in the queue, which was changed since anybody has looked."""

    async def run() -> None:
        controller = await LocalController.open(path / "controller.db")
        link = LocalLink(controller)
        await link.register(node())
        await controller.submit(wanting(1), submitted_by=0)
        await link.register(node())
        controller._tell()
        await scene(controller, link, Gated(controller, monkeypatch))
        await controller.close()

    asyncio.run(run())


def test_who_looks_meanwhile_waits_for_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the queue would be empty for one of them: the node takes nothing, or a reservation comes before the job."""

    async def scene(controller: LocalController, link: LocalLink, gated: Gated) -> None:
        first = asyncio.ensure_future(controller.next_head())
        await gated.begun.wait()
        work = asyncio.ensure_future(link.take_work(View()))
        await asyncio.sleep(0)
        gated.gate.set()
        assert isinstance(await work, Dispatch)
        assert await first is not None

    in_scene(tmp_path, monkeypatch, scene)


def test_who_goes_away_leaves_no_empty_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(controller: LocalController, link: LocalLink, gated: Gated) -> None:
        first = asyncio.ensure_future(controller.next_head())
        await gated.begun.wait()
        first.cancel()
        await asyncio.wait({first})
        gated.gate.set()
        assert isinstance(await link.take_work(View()), Dispatch)

    in_scene(tmp_path, monkeypatch, scene)


def test_a_disk_that_gives_nothing_leaves_no_empty_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(_: LocalController, link: LocalLink, gated: Gated) -> None:
        gated.gate.set()
        gated.error = SystemCallError(5, "cannot read the queue")
        with pytest.raises(Unreachable):
            await link.take_work(View())
        gated.error = None
        assert isinstance(await link.take_work(View()), Dispatch)

    in_scene(tmp_path, monkeypatch, scene)
