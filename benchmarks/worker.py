"""A process with a heap of its own that lets its contenders run when it is told to, so that heaps of two sizes take turns."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from benchmarks.measure import Contender, Figure, absent


class Worker:
    """The caller's side. Ends with the `with` block, and its memory with it."""

    def __init__(self, module: str, heap_mib: int) -> None:
        command = [sys.executable, "-m", module, str(heap_mib)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._units, self._missing = json.loads(self._line())

    def _line(self) -> str:
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker has ended: {self._process.wait()}")
        return line

    def take(self, name: str) -> list[float]:
        """Let one contender run, once."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
        samples: list[float] = json.loads(self._line())
        return samples

    def contenders(self, suffix: str) -> list[Contender]:
        """All of it, as contenders here, with `suffix` to their names."""
        return [
            Contender(name=f"{name}, {suffix}", unit=unit, take=partial(self.take, name)) for name, unit in self._units.items()
        ]

    def absent(self, suffix: str) -> list[Figure]:
        """What it cannot measure."""
        return [absent(f"{name}, {suffix}", "", why) for name, why in self._missing.items()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()


def serve(contenders: Sequence[Contender], missing: Mapping[str, str], heap_mib: int) -> None:
    """The worker's side: hold a heap, every page of it touched, and do as told until stdin ends. `missing`: name -> why.

    Pages are of the size that the host gives by default; which that is stands in the results.
    """
    with mmap.mmap(-1, heap_mib << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as heap:
        for offset in range(0, len(heap), mmap.PAGESIZE):
            heap[offset] = 1
        take = {contender.name: contender.take for contender in contenders}
        print(json.dumps([{contender.name: contender.unit for contender in contenders}, missing]), flush=True)
        for line in sys.stdin:
            print(json.dumps(list(take[line.strip()]())), flush=True)
