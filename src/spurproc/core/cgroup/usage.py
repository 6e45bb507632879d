"""What a cgroup, and all that ever lived in it, has used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from spurproc.core.cgroup.cgroup import Cgroup, parse_oom_kills
from spurproc.core.cgroup.folder import read_text
from spurproc.errors import SpurprocError

__all__ = ["CgroupUsage", "read_usage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupUsage:
    """In microseconds and bytes; None where nobody counts it here.

    The time is counted everywhere. `memory_peak_bytes`, of all of it at one moment, and `oom_kills` need the memory controller.
    Source: admin-guide/cgroup-v2.rst, "cpu.stat" (4.15), "memory.peak" (5.19), "memory.events" (4.13).
    """

    cpu_usec: int | None = None
    user_usec: int | None = None
    system_usec: int | None = None
    memory_peak_bytes: int | None = None
    oom_kills: int | None = None


def read_usage(cgroup: Cgroup) -> CgroupUsage:
    """What can be read now; nothing of a cgroup that is gone. Does not block."""
    times = parse_keyed(_read(cgroup, "cpu.stat"))
    peak = _read(cgroup, "memory.peak").strip()
    return CgroupUsage(
        cpu_usec=times.get(b"usage_usec"),
        user_usec=times.get(b"user_usec"),
        system_usec=times.get(b"system_usec"),
        memory_peak_bytes=int(peak) if peak.isdigit() else None,
        oom_kills=parse_oom_kills(_read(cgroup, "memory.events")),
    )


def parse_keyed(text: bytes) -> dict[bytes, int]:
    """The lines of a flat keyed file that are a name and a number."""
    pairs = (line.partition(b" ") for line in text.split(b"\n"))
    return {key: int(value) for key, _, value in pairs if value.isdigit()}


def _read(cgroup: Cgroup, name: str) -> bytes:
    with suppress(SpurprocError):
        return read_text(cgroup.fileno(), name)
    return b""
