"""The wall clock of an agent under test: the real one, and a step that others write. Import it before all that reads a clock.

CLOCK_REALTIME is one for the whole machine, and a time namespace moves only the clocks that count from the boot. So the agent
reads its time through this: `time.time` of its process adds what stands in a file, which a test may change at any moment.
Processes that it launches read the real clock: for them the agent is the one that has stepped.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

VARIABLE = "SPURD_TEST_CLOCK"
_STEP = struct.Struct("=d")


class SteppedClock:
    """The file, as a test holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(_STEP.pack(0.0))

    def step(self, by_s: float) -> float:
        """From now on it is that much later than it was. How far it is from the real one."""
        ahead_s = float(_STEP.unpack(self.path.read_bytes())[0]) + by_s
        with self.path.open("r+b") as file:
            file.write(_STEP.pack(ahead_s))
        return ahead_s


def _install(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    shared = mmap.mmap(fd, _STEP.size, prot=mmap.PROT_READ)
    os.close(fd)
    real = time.time

    def stepped() -> float:
        return real() + float(_STEP.unpack(shared[: _STEP.size])[0])

    time.time = stepped


if VARIABLE in os.environ:
    _install(os.environ[VARIABLE])
