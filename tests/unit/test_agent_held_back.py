"""What becomes of a GPU of which nobody can tell whether it is used: it is kept, and its job ends all the same."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spurproc.agent.attempts import held_back
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.held_back import HeldBack
from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.store.database import Database
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.errors import SystemCallError
from spurproc.proto.attempt_id import AttemptId

GPU = Gpu(kind="nvidia", pci_address="0000:41:00.0", uuid="GPU-aaaa")
OTHER = Gpu(kind="nvidia", pci_address="0000:65:00.0", uuid="GPU-bbbb")


def _say(*_: object, **__: object) -> None:
    """As a logger."""


def _around(path: Path) -> Any:
    return SimpleNamespace(
        configuration=SimpleNamespace(gpus_in_use="hold-back"),
        ownership=SimpleNamespace(require=lambda: None),
        resources=ResourceTable(Inventory(cpus=(0,), gpus=(GPU, OTHER))),
        database=Database.open(path / "agent.db", AGENT_SCHEMA),
        problems={},
        log=SimpleNamespace(warning=_say, info=_say),
        inventory_root=str(path),
        clock=lambda: 0.0,
        freed=asyncio.Event(),
    )


def _attempt(job: int, gpu: Gpu) -> Attempt:
    return Attempt(id=AttemptId(job, 1), allocation=Allocation(cpus=(0,), gpus=(gpu,)), accepted_at=0.0, uid=0)


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), TimeoutError("it takes longer than 5 s")])
def test_what_cannot_be_told_is_used_until_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    answers: list[Any] = [error, ()]

    def look(*_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def scene() -> None:
        around = _around(tmp_path)
        held = HeldBack(around, lambda: ())
        await held.look_behind(_attempt(1, GPU))
        assert around.resources.free.gpus == (OTHER,)
        assert around.problems == {
            f"GPU {GPU}": f"{GPU} is held back: attempt 1.1 has ended, and who uses it is not known: {error}"
        }
        await held.turn()
        assert around.resources.free.gpus == (GPU, OTHER)
        assert around.problems == {}
        assert around.freed.is_set()
        await around.database.close()

    monkeypatch.setattr(held_back, "_look", look)
    asyncio.run(scene())


def test_two_that_are_found_at_once_are_both_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is written down in the place of the other: the next agent holds back both."""

    async def scene() -> None:
        around = _around(tmp_path)
        database, waiting, written = around.database, list[Any](), asyncio.Event()

        async def write(body: Any) -> None:
            waiting.append(body)
            if len(waiting) == 2:
                for each in waiting:
                    await database.write(each)
                written.set()
            await written.wait()

        around.database = SimpleNamespace(write=write)
        held = HeldBack(around, lambda: ())
        await asyncio.gather(*(held.look_behind(_attempt(job, gpu)) for job, gpu in ((1, GPU), (2, OTHER))))
        around.database = database
        around.resources = ResourceTable(Inventory(cpus=(0,), gpus=(GPU, OTHER)))
        await HeldBack(around, lambda: ()).begin()
        assert around.resources.free.gpus == ()
        await around.database.close()

    monkeypatch.setattr(held_back, "_look", lambda *_: ("somebody",))
    asyncio.run(scene())


def test_a_path_that_cannot_be_looked_at_for_a_moment_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the state folder is still ours is not known then: nothing is written, and nobody fails."""
    answers: list[Any] = [SystemCallError(errno.EIO, "cannot look at the state folder")]

    def require() -> None:
        if answers:
            raise answers.pop()

    async def scene() -> None:
        around = _around(tmp_path)
        around.ownership = SimpleNamespace(require=require)
        await HeldBack(around, lambda: ()).look_behind(_attempt(1, GPU))
        around.resources = ResourceTable(Inventory(cpus=(0,), gpus=(GPU, OTHER)))
        await HeldBack(around, lambda: ()).begin()
        assert around.resources.free.gpus == (OTHER,)
        await around.database.close()

    monkeypatch.setattr(held_back, "_FIRST_S", 0.0)
    monkeypatch.setattr(held_back, "_look", lambda *_: ("somebody",))
    asyncio.run(scene())
    assert not answers
