"""What becomes of a GPU of which nobody can tell whether it is used: it is kept, and its job ends all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spurproc.agent.attempts import held_back
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.held_back import HeldBack
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.store.database import Database
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.proto.attempt_id import AttemptId

GPU = Gpu(kind="nvidia", pci_address="0000:41:00.0", uuid="GPU-aaaa")


def _say(*_: object, **__: object) -> None:
    """As a logger."""


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), TimeoutError("it takes longer than 5 s")])
def test_what_cannot_be_told_is_used_until_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    answers: list[Any] = [error, ()]

    def look(*_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def scene() -> None:
        database = Database.open(tmp_path / "agent.db", AGENT_SCHEMA)
        around: Any = SimpleNamespace(
            configuration=SimpleNamespace(gpus_in_use="hold-back"),
            ownership=SimpleNamespace(require=lambda: None),
            resources=ResourceTable(Inventory(cpus=(0,), gpus=(GPU,))),
            database=database,
            problems={},
            log=SimpleNamespace(warning=_say, info=_say),
            inventory_root=str(tmp_path),
            clock=lambda: 0.0,
            freed=asyncio.Event(),
        )
        held = HeldBack(cast("Surroundings", around), lambda: ())
        await held.look_behind(Attempt(id=AttemptId(1, 1), allocation=Allocation(cpus=(0,), gpus=(GPU,)), accepted_at=0.0, uid=0))
        assert not around.resources.free.gpus
        assert around.problems == {
            f"GPU {GPU}": f"{GPU} is held back: attempt 1.1 has ended, and who uses it is not known: {error}"
        }
        await held.turn()
        assert around.resources.free.gpus == (GPU,)
        assert around.problems == {}
        assert around.freed.is_set()
        await database.close()

    monkeypatch.setattr(held_back, "_look", look)
    asyncio.run(scene())
