"""All of a node in one reading. It reads a few hundred small files and blocks as the kernel does: nothing for an event loop."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spurproc.agent.inventory.cdi import read_cdi
from spurproc.agent.inventory.cpus import read_cpus
from spurproc.agent.inventory.generic import read_generic
from spurproc.agent.inventory.kfd import read_kfd
from spurproc.agent.inventory.memory import read_memory
from spurproc.agent.inventory.nvidia import read_nvidia
from spurproc.agent.inventory.reading import Failed, Gpu, Inventory, Reading
from spurproc.errors import InvalidArgument

__all__ = ["GpuSource", "Sources", "scan"]


class GpuSource(enum.Enum):
    """Where GPUs are looked for."""

    NVIDIA = "nvidia"
    KFD = "kfd"
    CDI = "cdi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is read, and where. `affinity`: the CPUs that the agent was started on; `generic`: as configured."""

    affinity: frozenset[int]
    generic: Mapping[str, int] = field(default_factory=dict)
    gpu_sources: frozenset[GpuSource] = frozenset(GpuSource)
    root: str = "/"


def scan(sources: Sources) -> Reading:
    """One reading: every kind, or Failed with the reason of each that failed."""
    cpus = read_cpus(sources.root, sources.affinity)
    memory_bytes = read_memory(sources.root)
    generic = read_generic(sources.generic)
    gpus = _gpus(sources)
    if isinstance(cpus, Failed) or isinstance(memory_bytes, Failed) or isinstance(gpus, Failed) or isinstance(generic, Failed):
        failed = (part for part in (cpus, memory_bytes, gpus, generic) if isinstance(part, Failed))
        return Failed("; ".join(part.reason for part in failed))
    try:
        return Inventory(cpus=cpus, memory_bytes=memory_bytes, gpus=gpus, generic=generic)
    except InvalidArgument as error:
        return Failed(f"inventory: {error}")


def _gpus(sources: Sources) -> tuple[Gpu, ...] | Failed:
    readings = list(_gpu_readings(sources))
    failed = [reading.reason for reading in readings if isinstance(reading, Failed)]
    if failed:
        return Failed("; ".join(failed))
    gpus: list[Gpu] = []
    for gpu in (gpu for reading in readings if not isinstance(reading, Failed) for gpu in reading):
        if not any(_is_once_more(gpu, other) for other in gpus):
            gpus.append(gpu)
    return tuple(sorted(gpus, key=str))


def _is_once_more(gpu: Gpu, other: Gpu) -> bool:
    """A spec may name what a driver has told. Where each has a name that the other has not, nobody can tell what is meant."""
    return set(gpu.names) <= set(other.names) or set(gpu.names) >= set(other.names)


def _gpu_readings(sources: Sources) -> Iterator[tuple[Gpu, ...] | Failed]:
    """The drivers first. A spec says nothing of a vendor whose driver is asked: it may be older than what has vanished."""
    asked = set()
    if GpuSource.NVIDIA in sources.gpu_sources:
        asked.add("nvidia.com")
        yield read_nvidia(sources.root)
    if GpuSource.KFD in sources.gpu_sources:
        asked.add("amd.com")
        yield read_kfd(sources.root)
    if GpuSource.CDI in sources.gpu_sources:
        yield read_cdi(sources.root, asked)
