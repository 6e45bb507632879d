"""`spurstepd` that notes what it does and when: each fsync and each effect of the table, all its processes in one file."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NOTE = struct.Struct("=qQQd24s")
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
SYNCS = ("fsync", "fdatasync")
FORKED = "FORKED"
"""A supervisor has closed what it does not need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One call that was made: by which process, what, and from when to when, in nanoseconds of CLOCK_MONOTONIC.

    `uss_kib`: what memory its process had for itself after it; 0 where that was not asked for, since to ask takes time.
    """

    pid: int
    what: str
    begun_ns: int
    ended_ns: int
    uss_kib: float


def noting_program(folder: Path, *, memory: bool = False) -> Path:
    """The program, for SPURPROC_STEPD; it appends to `notes` beside it."""
    program = folder / "noting-stepd"
    root = Path(__file__).resolve().parent.parent
    lines = [f"#!{sys.executable}", "import sys", f"sys.path.insert(0, {str(root)!r})"]
    lines += ["from benchmarks.noting_stepd import serve", f"sys.exit(serve({str(folder / 'notes')!r}, memory={memory}))"]
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def read_notes(folder: Path) -> list[Note]:
    """All of them by now, in the order in which the calls ended."""
    content = (folder / "notes").read_bytes()
    found = _NOTE.iter_unpack(content[: len(content) - len(content) % _NOTE.size])
    return [
        Note(pid=pid, begun_ns=begun, ended_ns=ended, uss_kib=uss, what=what.rstrip(b"\0").decode())
        for pid, begun, ended, uss, what in found
    ]


def serve(path: str, *, memory: bool) -> int:
    """Be the host."""
    from spurproc.stepd import __main__ as stepd  # noqa: PLC0415 - for the reader of notes there is no need of it
    from spurproc.stepd import forking  # noqa: PLC0415
    from spurproc.stepd.effects import EffectRunner  # noqa: PLC0415

    for name in SYNCS:
        setattr(os, name, _noted(getattr(os, name), path, name, memory=False))
    forking._close_all_but = _noted(forking._close_all_but, path, FORKED, memory=memory)  # noqa: SLF001 - its first act
    EffectRunner.do = _noted(EffectRunner.do, path, "", memory=memory)  # type: ignore[method-assign]
    return stepd.run()


def _noted(call: Callable[..., Any], path: str, name: str, *, memory: bool) -> Callable[..., Any]:
    """Without a `name` it is an effect, and noted by that."""

    def noted(*arguments: Any) -> Any:
        begun = time.monotonic_ns()
        try:
            return call(*arguments)
        finally:
            ended, what = time.monotonic_ns(), name or arguments[1].name
            # Opened anew each time: a supervisor closes whatever its host had open.
            fd = os.open(path, _APPEND, 0o600)
            os.write(fd, _NOTE.pack(os.getpid(), begun, ended, _uss_kib() if memory else 0, what.encode()))
            os.close(fd)

    return noted


def _uss_kib() -> int:
    """As `supervisors.uss_kib`, in few words: whatever Python touches to find out is private memory from then on."""
    fd = os.open("/proc/self/smaps_rollup", os.O_RDONLY | os.O_CLOEXEC)
    words = os.read(fd, 4096).split()
    os.close(fd)
    return int(words[words.index(b"Private_Clean:") + 1]) + int(words[words.index(b"Private_Dirty:") + 1])
