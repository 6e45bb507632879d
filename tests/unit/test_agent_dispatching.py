"""How the agent takes work, where its own node fails it for a moment."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest

from spurproc.agent.controller.registration import BackOff
from spurproc.agent.daemon import dispatching
from spurproc.agent.daemon.dispatching import Dispatching
from spurproc.errors import OwnershipLost, SystemCallError
from tests.agent_around import surroundings


def test_a_path_that_cannot_be_looked_at_for_a_moment_ends_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No work is taken then. Where the folder is found to be lost, that ends it."""
    answers: list[Exception | None] = [SystemCallError(errno.EIO, "cannot look"), None, OwnershipLost("removed")]
    taken: list[object] = []

    def require() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    async def scene() -> None:
        async def take_work(node: object) -> None:
            taken.append(node)
            around.freed.set()

        registered = asyncio.Event()
        registered.set()
        link = SimpleNamespace(take_work=take_work, await_work=asyncio.Event().wait)
        around = surroundings(ownership=SimpleNamespace(require=require), link=link)
        attempts: Any = "the attempts"
        registration: Any = SimpleNamespace(registered=registered)
        with pytest.raises(OwnershipLost):
            await Dispatching(around, attempts, registration).run()

    monkeypatch.setattr(dispatching, "BackOff", lambda: BackOff(first_s=0.0, last_s=0.0))
    asyncio.run(scene())
    assert (taken, answers) == (["the attempts"], [])
