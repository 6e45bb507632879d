"""What each process of a tree is called, does and uses, by psutil; never a reading of whoever got its number since."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import psutil

from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.process_walk import ProcessRow, read_process
from spurproc.errors import SpurprocError
from spurproc.inspect.tree_members import same_process

__all__ = ["Usage", "read_usage", "state_word"]

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_WORDS = {
    "R": "running",
    "S": "sleeping",
    "D": "blocked",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
    "P": "parked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One reading. A zombie uses no memory; what may not be read, or cannot be, is None.

    `cpu_s`: user and system time of the process, its reaped children not included. `cpu_percent`: of one CPU, the mean since its
    start, as ps(1) has it. `rss_bytes`: resident memory, shared pages counted in full.
    """

    row: ProcessRow
    name: str | None
    cpu_s: float | None
    cpu_percent: float | None
    rss_bytes: int | None


def state_word(row: ProcessRow) -> str:
    """`blocked` is in the kernel, where no signal reaches it (D). A zombie whose threads run on is none yet: `main ended`."""
    if row.state == "Z" and not row.ended:
        return "main ended"
    return _WORDS.get(row.state, row.state)


def read_usage(row: ProcessRow) -> Usage | None:
    """The reading of the process of `row`; None when it has gone, before or meanwhile.

    It is held by a pidfd while psutil reads by its number: if it is there afterwards, what was read is its own.
    """
    held = _hold(row)
    try:
        name, cpu_s, rss_bytes = _read(row.pid)
        now = read_process(row.pid)
        gone = held is not None and held.liveness() is Liveness.GONE
        if now is None or not same_process(row, now) or (gone and not now.ended):
            return None
    finally:
        if held is not None:
            held.close()
    return Usage(row=now, name=name, cpu_s=cpu_s, cpu_percent=_percent(now, cpu_s), rss_bytes=rss_bytes)


def _hold(row: ProcessRow) -> Pidfd | None:
    try:
        return Pidfd.open(row.pid)
    except SpurprocError:  # gone, or refused here: then its start, before and after, has to do
        return None


def _read(pid: int) -> tuple[str | None, float | None, int | None]:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return process.name(), times.user + times.system, process.memory_info().rss
    except (psutil.Error, OSError):
        return None, None, None


def _percent(row: ProcessRow, cpu_s: float | None) -> float | None:
    lived_s = time.clock_gettime(time.CLOCK_BOOTTIME) - row.start_ticks / _TICKS_A_SECOND
    return None if cpu_s is None or lived_s <= 0 else 100 * cpu_s / lived_s
