"""What the agent finds of its inventory while its disk is full: it serves on, shows it, and writes it down once it can."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, cast

from spurproc.agent.daemon.inventory_turns import InventoryTurns
from spurproc.agent.inventory.outcome import ConfirmedBusy
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.resources.request import ResourceRequest
from spurproc.errors import SystemCallError
from spurproc.proto.attempt_id import AttemptId
from tests.agent_around import surroundings

_NONE = cast("Any", None)


class Disk:
    """A database that can be full."""

    full = True
    written = 0
    meanwhile: Callable[[], object] = staticmethod(lambda: None)
    """Done by others while something is written."""

    async def write(self, body: Callable[[Any], object], *, urgent: bool = True) -> None:
        """See `Database`."""
        del body, urgent
        if self.full:
            raise SystemCallError(errno.ENOSPC, "No space left on device")
        self.meanwhile()
        self.written += 1


class Reader:
    """Reads what it is told."""

    not_there = ()

    def __init__(self, found: Inventory) -> None:
        self.found = found
        self.left_out: dict[str, str] = {}

    async def read(self) -> Inventory:
        """See `InventoryReader`."""
        return self.found


def test_a_full_disk_ends_nobody_and_what_was_found_is_written_down_later() -> None:
    async def scene() -> None:
        disk, told = Disk(), list[bool]()
        around = surroundings(database=disk)
        reader = Reader(Inventory(cpus=(0,), memory_bytes=1))
        turns = InventoryTurns(around, cast("Any", reader), lambda: told.append(True))
        await turns.begin()
        assert "No space left" in "".join(around.problems.values())
        disk.full = False
        for _ in range(2):
            await turns.turn()
        assert around.resources.inventory == reader.found
        assert (disk.written > 0, bool(told), around.problems) == (True, True, {})
        disk.full = True
        reader.found = Inventory(cpus=(0, 1), memory_bytes=1)
        for _ in range(2):
            await turns.turn()
        assert around.problems
        disk.full, before = False, disk.written
        await turns.turn()
        assert around.resources.inventory == reader.found
        assert (disk.written, around.problems) == (before + 1, {})

    asyncio.run(scene())


def test_what_is_left_out_is_what_was_read_last() -> None:
    """The second GPU without a UUID as well, and it alone once the first has one."""

    async def scene() -> None:
        around = surroundings(database=Disk())
        reader = Reader(Inventory(cpus=(0,), memory_bytes=1))
        turns = InventoryTurns(around, cast("Any", reader), lambda: None)
        for left_out in ({"one": "why"}, {"one": "why", "two": "why"}, {"two": "why"}, {}):
            reader.left_out = left_out
            await turns.turn()
            told = [problem for problem in around.problems.values() if "no job gets" in problem]
            assert told == ([f"no job gets the GPU {'; '.join(f'{gpu}: why' for gpu in left_out)}"] if left_out else [])

    asyncio.run(scene())


def test_a_job_that_begins_while_something_is_written_down_is_seen() -> None:
    """What an idle node has may change; the job that came meanwhile has its CPU until it ends."""

    async def scene() -> None:
        disk = Disk()
        around = surroundings(database=disk)
        reader = Reader(Inventory(cpus=(0,), memory_bytes=1))
        turns = InventoryTurns(around, cast("Any", reader), lambda: None)
        await turns.begin()
        await turns.turn()

        def meanwhile() -> None:
            disk.meanwhile = int
            around.resources.allocate(AttemptId(1, 1), ResourceRequest())

        disk.full, disk.meanwhile = False, meanwhile
        assert isinstance(await turns.turn(), ConfirmedBusy)
        assert around.resources.inventory.cpus == (0, 1)

    asyncio.run(scene())
