"""How fast this machine is: bounds in milliseconds hold on an ordinary one; an emulated one is many times slower."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_ORDINARY_START_S = 0.004  # at most: starting /bin/true and waiting for it, best of five; mostly it is 1 ms


def at_this_pace(seconds: float) -> float:
    """`seconds` of an ordinary machine on this one: never less."""
    return seconds * max(1.0, _bare_start_s() / _ORDINARY_START_S)


def readable(descriptor: int, timeout_s: float) -> bool:
    """Wait until it is, for `timeout_s` of an ordinary machine. How slow this one is, is asked only when those are over."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000) or poller.poll((at_this_pace(timeout_s) - timeout_s) * 1000))


@contextmanager
def ahead() -> Iterator[None]:
    """This thread, and what it starts meanwhile, runs before all else on the machine, where that may be asked for (root).

    So a busy machine is as fast as a quiet one, to it. Source: sched(7), "SCHED_RR".
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@cache
def _bare_start_s() -> float:
    took_s = []
    for _ in range(5):
        begin = time.monotonic()
        subprocess.run(["/bin/true"], check=True)
        took_s.append(time.monotonic() - begin)
    return min(took_s)
