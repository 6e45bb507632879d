"""Waits until a process stands still, by the kernel's own word. proc_pid_stat(5), proc_pid_wchan(5)"""

from __future__ import annotations

import os
import time
from pathlib import Path

_WITHIN_S = 300.0


def await_state(pid: int, state: str) -> None:
    """Blocks until the process is in that state, the third field of its `stat`."""
    deadline = time.monotonic() + _WITHIN_S
    while Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != state.encode():
        assert time.monotonic() < deadline, f"process {pid} was never in state {state}"
        os.sched_yield()


def await_sleep(pid: int, *places: str) -> None:
    """Blocks until it sleeps in one of these system calls."""
    deadline = time.monotonic() + _WITHIN_S
    while not any(place in Path(f"/proc/{pid}/wchan").read_text() for place in places):
        assert time.monotonic() < deadline, f"process {pid} never slept in any of {places}"
        os.sched_yield()


def await_waiting(pid: int) -> None:
    """Blocks until it waits: in poll, or between two looks where there is nothing to poll."""
    await_sleep(pid, "poll", "nanosleep")
