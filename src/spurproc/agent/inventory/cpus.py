"""The CPUs that jobs may run on: those that are online, that our cgroup lets us use, and that we were started on."""

from __future__ import annotations

from collections.abc import Collection

from spurproc.agent.inventory.cgroups import hierarchy_of
from spurproc.agent.inventory.node_files import NodeFiles, Unreadable
from spurproc.agent.inventory.reading import LAST_CPU, Failed

__all__ = ["parse_cpu_list", "read_cpus"]

_ONLINE = "/sys/devices/system/cpu/online"
_CPUSET_FILES = {1: ("cpuset.effective_cpus", "cpuset.cpus"), 2: ("cpuset.cpus.effective",)}
"""Of version 1 the first came later; without it what is set is what acts."""


def read_cpus(root: str, affinity: Collection[int]) -> tuple[int, ...] | Failed:
    """Ascending; never none. `affinity`: sched_getaffinity(2) of the agent, as it was when it started.

    Source: ABI/testing/sysfs-devices-system-cpu, "online"; admin-guide/cgroup-v2.rst, "cpuset.cpus.effective"; cpuset(7).
    """
    try:
        return _cpus(NodeFiles(root), affinity)
    except Unreadable as unreadable:
        return Failed(f"CPUs: {unreadable}")


def _cpus(files: NodeFiles, affinity: Collection[int]) -> tuple[int, ...]:
    cpus = parse_cpu_list(files.read(_ONLINE), _ONLINE).intersection(affinity)
    allowed = _cpuset(files)
    if allowed is not None:
        cpus &= allowed
    if not cpus:
        raise Unreadable("none is online, in our cpuset and in our affinity")
    return tuple(sorted(cpus))


def _cpuset(files: NodeFiles) -> set[int] | None:
    """None: no cpuset. A cgroup without the controller has that of the nearest one above that has it."""
    hierarchy = hierarchy_of("cpuset", files)
    if hierarchy is None:
        return None
    for folder in hierarchy.folders:
        for name in _CPUSET_FILES[hierarchy.version]:
            text = files.read_if_there(f"{folder}/{name}")
            if text is not None:
                return parse_cpu_list(text, f"{folder}/{name}")
    return None


def parse_cpu_list(text: str, where: str) -> set[int]:
    """Such as `0-3,8`, as the kernel writes it. Raises Unreadable for anything else, and for an empty one."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        numbers = [first, last if dash else first]
        if not all(number.isascii() and number.isdigit() and len(number) <= 5 for number in numbers):
            raise Unreadable(f"cannot read {where}: {text.strip()!r:.100} is no list of CPUs")
        lowest, highest = map(int, numbers)
        if not lowest <= highest <= LAST_CPU:
            raise Unreadable(f"cannot read {where}: {part} is no range of CPUs")
        cpus.update(range(lowest, highest + 1))
    return cpus
