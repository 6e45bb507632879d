"""What the node has, as far as jobs may have it: read now, or accepted in an earlier life of the agent."""

from __future__ import annotations

import errno
import os
from typing import Any

import msgspec

from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.configuration.list_kinds import CpuList
from spurproc.agent.inventory.generic import read_generic
from spurproc.agent.inventory.reading import Failed, Gpu, Inventory, Reading
from spurproc.agent.inventory.scan import Sources, scan
from spurproc.agent.jobs.environment import why_hidden
from spurproc.agent.lone_thread import LoneThread
from spurproc.agent.store.database import Database
from spurproc.agent.store.node_values import NodeValue, read_value
from spurproc.errors import RecordInvalid, SystemCallError
from spurproc.proto.codec import decode

__all__ = ["InventoryReader", "known_inventory"]

_TRIES = 5
_WITHIN_S = 5.0
"""A reading takes some milliseconds. One that the kernel does not answer holds up nothing else, not even a start."""


async def known_inventory(database: Database, log: Any) -> Inventory | None:
    """Under which the recorded claims were made; None before the first start, and where that cannot be read any more.

    A later release may have written it. What the node has is read anew then, and a claim on something else is shown.
    """
    content = await database.read(lambda connection: read_value(connection, NodeValue.ACCEPTED_INVENTORY))
    try:
        return None if content is None else decode(content, Inventory, "the accepted inventory")
    except RecordInvalid as error:
        log.error("what this node had is read anew", why=str(error))  # noqa: TRY400 - no traceback for a fact
        return None


class InventoryReader:
    """Reads what the node has, as far as jobs may have it."""

    def __init__(self, configuration: Configuration, *, root: str = "/") -> None:
        self._configuration = configuration
        self._sources = Sources(affinity=frozenset(os.sched_getaffinity(0)), generic=configuration.generic, root=root)
        self._thread = LoneThread(_WITHIN_S)
        self.left_out: dict[Gpu, str] = {}
        """What was read last, and no job can have, with the reason."""
        self.not_there: tuple[str, ...] = ()
        """What is configured for jobs to have, and was not found."""

    async def read(self) -> Reading:
        """One reading; it blocks a thread, and not the loop, nor for ever."""
        try:
            reading = await self._thread.run(scan, self._sources)
        except TimeoutError as error:
            return Failed(f"the kernel does not answer: {error}")
        except SystemCallError as error:
            return Failed(str(error))
        return reading if isinstance(reading, Failed) else self._allowed(reading)

    async def first(self) -> Inventory:
        """Twice alike, for there is none to compare it with. Raises SystemCallError where the node cannot be read."""
        last: Reading = Failed("it was not read")
        for _ in range(_TRIES):
            reading = await self.read()
            if isinstance(reading, Inventory) and reading == last:
                return reading
            last = reading
        why = last.reason if isinstance(last, Failed) else "no two readings were alike"
        raise SystemCallError(errno.EIO, f"cannot tell what this node has: {why}")

    def within(self, found: Inventory) -> Inventory:
        """As much of it as is configured for jobs."""
        configured = self._configuration
        cpus = found.cpus if configured.cpus is None else tuple(cpu for cpu in found.cpus if cpu in configured.cpus)
        memory_bytes = min(found.memory_bytes, configured.memory_bytes or found.memory_bytes)
        gpus = found.gpus if configured.gpus is None else tuple(gpu for gpu in found.gpus if {*gpu.names} & {*configured.gpus})
        generic = read_generic(configured.generic)
        assert not isinstance(generic, Failed), generic  # noqa: S101 - a configuration that was taken has names and counts
        return msgspec.structs.replace(found, cpus=cpus, memory_bytes=memory_bytes, gpus=gpus, generic=generic)

    def _allowed(self, found: Inventory) -> Inventory:
        self.not_there = self._missing(found)
        allowed = self.within(found)
        self.left_out = {gpu: why for gpu in allowed.gpus if (why := why_hidden(gpu)) is not None}
        gpus = tuple(gpu for gpu in allowed.gpus if gpu not in self.left_out)
        return msgspec.structs.replace(allowed, gpus=gpus)

    def _missing(self, found: Inventory) -> tuple[str, ...]:
        names = {name for gpu in found.gpus for name in gpu.names}
        cpus = [cpu for cpu in self._configuration.cpus or () if cpu not in found.cpus]
        gpus = [name for name in self._configuration.gpus or () if name not in names]
        return (*([f"CPU {CpuList().to_text(tuple(cpus))}"] if cpus else ()), *(f"GPU {name}" for name in gpus))
