"""A job whose main and whose end are timed by itself: `stamped.c`, the same for whoever supervises it."""

from __future__ import annotations

import os
import shutil
import struct
import time
from pathlib import Path

from benchmarks.bare import static_program

_STAMPS = struct.Struct("=QQ")
_LOOK_S = 0.0005
_BEGUN_WITHIN_S = 20.0


class StampedJob:
    """Its folder, and what it has written there. `program` is a copy inside the folder, for who sees nothing else."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder."""
        self.folder = folder
        self.program = folder / "run"
        folder.mkdir()
        shutil.copy(static_program("stamped"), self.program)
        (folder / "stamps").write_bytes(bytes(_STAMPS.size))
        os.mkfifo(folder / "hold")

    def _stamps(self) -> tuple[int, int]:
        begun_ns, ended_ns = _STAMPS.unpack((self.folder / "stamps").read_bytes())
        return begun_ns, ended_ns

    def begun_ns(self) -> int:
        """When its main began, once it has. It says so to nobody else, and is looked at until then."""
        deadline = time.monotonic() + _BEGUN_WITHIN_S
        while not (begun_ns := self._stamps()[0]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job in {self.folder} does not begin")
            time.sleep(_LOOK_S)  # noqa: TID251 - its word is a stamp in memory
        return begun_ns

    def release(self) -> None:
        """Let it end: 20 ms from now."""
        self.begun_ns()
        fd = os.open(self.folder / "hold", os.O_WRONLY)
        try:
            os.write(fd, b".")
        finally:
            os.close(fd)

    def ended_ns(self) -> int:
        """When it called _exit, for who knows that it has."""
        return self._stamps()[1]

    def remove(self) -> None:
        """It has ended."""
        shutil.rmtree(self.folder)
