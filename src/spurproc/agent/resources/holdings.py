"""Who has each CPU and each GPU, and how much of the rest is taken. It counts what it is told, and judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Holdings"]

T = TypeVar("T")


class Holdings:
    """All that is allocated, from the side of the things."""

    def __init__(self) -> None:
        self.cpus: dict[int, tuple[AttemptId, ...]] = {}
        """In the order in which they claimed it. More than one only where more than one uses it, whoever was to have it."""
        self.gpus: dict[str, tuple[AttemptId, ...]] = {}
        """By each of the names of a GPU: who shares one with a GPU that is held may be the same device."""
        self.memory_bytes = 0
        self.generic: dict[str, int] = {}

    def add(self, key: AttemptId, allocation: Allocation) -> None:
        """`key` holds it from now on."""
        for cpu in allocation.cpus:
            self.cpus[cpu] = (*self.cpus.get(cpu, ()), key)
        for gpu_name in _names(allocation):
            self.gpus[gpu_name] = (*self.gpus.get(gpu_name, ()), key)
        self.memory_bytes += allocation.memory_bytes
        for name, count in allocation.generic.items():
            self.generic[name] = self.generic.get(name, 0) + count

    def remove(self, key: AttemptId, allocation: Allocation) -> None:
        """`key` holds it no more."""
        for cpu in allocation.cpus:
            _let_go(self.cpus, cpu, key)
        for gpu_name in _names(allocation):
            _let_go(self.gpus, gpu_name, key)
        self.memory_bytes -= allocation.memory_bytes
        for name, count in allocation.generic.items():
            self.generic[name] -= count

    def holder_of_cpu(self, cpu: int) -> AttemptId | None:
        """Who has it, and had it first."""
        return next(iter(self.cpus.get(cpu, ())), None)

    def holder_of(self, gpu: Gpu) -> AttemptId | None:
        """Who has it, or a GPU at its address, or one with its UUID."""
        return next((self.gpus[name][0] for name in gpu.names if name in self.gpus), None)

    def free_of(self, inventory: Inventory) -> Inventory:
        """What of it nobody has. What is held and not in it takes nothing from the rest, and less than nothing is never free."""
        return Inventory(
            cpus=tuple(cpu for cpu in inventory.cpus if cpu not in self.cpus),
            memory_bytes=self.free_memory_of(inventory),
            gpus=tuple(gpu for gpu in inventory.gpus if self.holder_of(gpu) is None),
            generic=self.free_generic_of(inventory),
        )

    def free_memory_of(self, inventory: Inventory) -> int:
        """The bytes of it that nobody has."""
        return max(0, inventory.memory_bytes - self.memory_bytes)

    def free_generic_of(self, inventory: Inventory) -> Mapping[str, int]:
        """The generic resources of it that nobody has."""
        return _above_zero({name: count - self.generic.get(name, 0) for name, count in inventory.generic.items()})

    def beyond(self, inventory: Inventory) -> tuple[int, Mapping[str, int]]:
        """The memory and the generic resources that are held and that it has not got any more."""
        generic = {name: count - inventory.generic.get(name, 0) for name, count in self.generic.items()}
        return max(0, self.memory_bytes - inventory.memory_bytes), _above_zero(generic)


def _let_go(holders: dict[T, tuple[AttemptId, ...]], thing: T, key: AttemptId) -> None:
    left = tuple(holder for holder in holders[thing] if holder != key)
    if left:
        holders[thing] = left
    else:
        del holders[thing]


def _names(allocation: Allocation) -> Iterator[str]:
    return (name for gpu in allocation.gpus for name in gpu.names)


def _above_zero(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count for name, count in sorted(counts.items()) if count > 0}
