"""How much memory jobs may have in all: what the machine has, or less where a cgroup above us says so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spurproc.agent.inventory.cgroups import hierarchy_of
from spurproc.agent.inventory.node_files import NodeFiles, Unreadable
from spurproc.agent.inventory.reading import Failed

__all__ = ["read_memory"]

_MEMINFO = "/proc/meminfo"
_TOTAL = re.compile(r"^MemTotal:[ \t]*([0-9]{1,15})[ \t]+kB[ \t]*$", re.ASCII | re.MULTILINE)
_LIMIT_FILES = {1: "memory.limit_in_bytes", 2: "memory.max"}
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


def read_memory(root: str) -> int | Failed:
    """Bytes, more than 0. In containers MemTotal may be blank, 0 or less: that is unknown, and no memory of 0.

    Source: proc_meminfo(5); admin-guide/cgroup-v2.rst, "memory.max"; admin-guide/cgroup-v1/memory.rst, "Hierarchy support".
    """
    files = NodeFiles(root)
    try:
        return min((_total(files), *_limits(files)))
    except Unreadable as unreadable:
        return Failed(f"memory: {unreadable}")


def _total(files: NodeFiles) -> int:
    match = _TOTAL.search(files.read(_MEMINFO))
    if match is None or not int(match[1]):
        raise Unreadable(f"cannot read {_MEMINFO}: MemTotal is not a number above 0")
    return int(match[1]) * 1024


def _limits(files: NodeFiles) -> Iterator[int]:
    """Of our own cgroup and of all above it: the smallest one acts. The top has none, nor one without the controller."""
    hierarchy = hierarchy_of("memory", files)
    if hierarchy is None:
        return
    for folder in hierarchy.folders:
        path = f"{folder}/{_LIMIT_FILES[hierarchy.version]}"
        text = files.read_if_there(path)
        if text is not None and text.strip() != "max":
            yield _limit(text.strip(), path)


def _limit(text: str, path: str) -> int:
    if not _NUMBER.fullmatch(text) or not int(text):
        raise Unreadable(f"cannot read {path}: {text!r:.100} is no limit of memory")
    return int(text)
