"""The floors of starts that go through a static program, from C: `through.c` and `between.c`."""

from __future__ import annotations

import ctypes
import os

from benchmarks.bare import function, static_program

LOWERED = "bare C, through a static program, user + limits + cgroup"
KEPT = "bare C, through a static program that stays and starts the job at a gate"

_TYPES = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int))


def lowered_us(job: str, cgroup_fd: int, times: int) -> list[float]:
    """Microseconds until the exec of `job`, by a program that sets its limits and its user. Needs root."""
    return _through_us("bare_lowered", job, cgroup_fd, times)


def kept_us(job: str, cgroup_fd: int, times: int) -> list[float]:
    """The same by a program that outlives its launcher and will know how the job ended."""
    return _through_us("bare_kept", job, cgroup_fd, times)


def _through_us(symbol: str, job: str, cgroup_fd: int, times: int) -> list[float]:
    once, pidfd, taken = function("through", symbol, *_TYPES), ctypes.c_int(-1), []
    program = os.fsencode(static_program("between"))
    for _ in range(times + 1):
        taken.append(once(program, job.encode(), cgroup_fd, ctypes.byref(pidfd)) / 1000)
        os.waitid(os.P_PIDFD, pidfd.value, os.WEXITED)
        os.close(pidfd.value)
    return taken[1:]
