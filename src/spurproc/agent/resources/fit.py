"""Whether a request fits, and into which things of those that are free."""

from __future__ import annotations

from collections.abc import Iterator

from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.refusal import Shortage
from spurproc.agent.resources.request import ResourceRequest

__all__ = ["choose", "shortages_of"]


def shortages_of(request: ResourceRequest, free: Inventory, total: Inventory) -> tuple[Shortage, ...]:
    """All that is short, so that nobody has to ask twice; none where it fits."""
    return tuple(shortage for shortage in _compared(request, free, total) if shortage.wanted > shortage.free)


def _compared(request: ResourceRequest, free: Inventory, total: Inventory) -> Iterator[Shortage]:
    kind = "" if request.gpu_kind is None else f" of kind {request.gpu_kind}"
    yield Shortage(what="CPUs", wanted=request.cpus, free=len(free.cpus), total=len(total.cpus))
    yield Shortage(what="bytes of memory", wanted=request.memory_bytes, free=free.memory_bytes, total=total.memory_bytes)
    yield Shortage(
        what=f"GPUs{kind}",
        wanted=request.gpus,
        free=sum(map(request.takes, free.gpus)),
        total=sum(map(request.takes, total.gpus)),
    )
    for name, wanted in request.generic.items():
        yield Shortage(what=name, wanted=wanted, free=free.generic.get(name, 0), total=total.generic.get(name, 0))


def choose(request: ResourceRequest, free: Inventory) -> Allocation:
    """The lowest CPUs, and the GPUs in the order of their names, of what is free; `request` fits into it."""
    return Allocation(
        cpus=free.cpus[: request.cpus],
        memory_bytes=request.memory_bytes,
        gpus=tuple(filter(request.takes, free.gpus))[: request.gpus],
        generic=request.generic,
    )
