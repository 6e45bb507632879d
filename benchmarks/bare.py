"""The bare C loops: `benchmarks/<name>.c`, compiled when a run begins and called in this very process.

In this process, so that both sides have the same descriptors, memory and place in the scheduler; each loop takes its own time,
so the call from Python is not in it.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", f"-I{HERE.parent / 'csrc'}")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="spurproc-bench-")


@cache
def _compiled(name: str, made: str, *flags: str, compiler: str = "gcc") -> Path:
    path = Path(_folder().name, made)
    subprocess.run([compiler, *FLAGS, *flags, str(HERE / f"{name}.c"), "-o", str(path)], check=True)
    return path


def program(name: str) -> Path:
    """`benchmarks/<name>.c` as a program."""
    return _compiled(name, name)


def static_program(name: str) -> Path:
    """The same, static and with musl, as the project's own: it starts in a sixth of the time of one with glibc."""
    return _compiled(name, name, "-static", compiler="musl-gcc")


def function(name: str, symbol: str, *argument_types: Any) -> Callable[..., float]:
    """A function of `benchmarks/<name>.c` that returns nanoseconds; RuntimeError where it says that it failed."""
    found = getattr(ctypes.CDLL(str(_compiled(name, f"{name}.so", "-shared", "-fPIC"))), symbol)
    found.restype = ctypes.c_double
    found.argtypes = argument_types

    def call(*arguments: object) -> float:
        taken: float = found(*arguments)
        if taken < 0:
            raise RuntimeError(f"{symbol} failed")
        return taken

    return call
