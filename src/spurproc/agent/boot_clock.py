"""The clock that tells how long ago something was, over restarts of the agent: nobody can set it."""

from __future__ import annotations

import time

__all__ = ["boot_s"]


def boot_s() -> float:
    """Seconds of CLOCK_BOOTTIME, as seen in this time namespace.

    It runs while the machine sleeps. Of another boot it tells nothing. Source: clock_gettime(2).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)
