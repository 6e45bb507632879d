"""The clock that tells how long ago something was, over restarts of the agent: nobody can set it."""

from __future__ import annotations

import os
import time

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.vantage import Vantage

__all__ = ["boot_s", "started_s"]

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def boot_s() -> float:
    """Seconds of CLOCK_BOOTTIME, as seen in this time namespace.

    It runs while the machine sleeps. Of another boot it tells nothing. Source: clock_gettime(2).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def started_s(process: ProcessIdentity) -> float | None:
    """When it was started, by this clock; None where its start was seen in another time namespace.

    Source: proc_pid_stat(5), field 22.
    """
    if process.time_namespace != Vantage.read().time_namespace:
        return None
    return process.start_ticks / _TICKS_A_SECOND
