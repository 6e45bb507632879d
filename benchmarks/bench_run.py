"""What does running a command to its end cost, beside subprocess.run?"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable

from benchmarks.bare import function
from benchmarks.cgroup_home import NONE_HERE
from benchmarks.measure import Contender, Figure, absent, interleave, once_us
from benchmarks.parts import measure_parts
from benchmarks.scale import Scale
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.command.run import run
from spurproc.core.tree.members import Containment

OURS = 'run(["true"])'
OURS_DESCENDANTS = 'run(["true"]), DESCENDANTS'
SUBPROCESS = 'subprocess.run(["true"])'
ASYNCIO = "asyncio"
POSIX_SPAWN = "os.posix_spawnp + os.waitpid"
BARE = "bare C, posix_spawnp + waitpid"
BARE_CGROUP = "bare C, in a fresh cgroup"

_RUN = "spurproc.core.command.run"
_PARTS = {
    "all of it": "benchmarks.bench_run:run",
    "cgroup root found": f"{_RUN}:choose_root",
    "plan made": f"{_RUN}:_plan",
    "job started": f"{_RUN}:CgroupJob.start",
    "end waited for": f"{_RUN}:_Watched.wait",
    "emptiness proven": f"{_RUN}:_Watched.clear",
    "result made": f"{_RUN}:_result",
    "cgroup removed": f"{_RUN}:CgroupJob.close",
}

_COMMAND = ["true"]
_TIMES = 5


def measure(scale: Scale) -> list[Figure]:
    """In a round each runs five times, after one that is not timed."""
    ours, missing = _ours()
    contenders = [
        *ours,
        _each(SUBPROCESS, lambda: subprocess.run(_COMMAND, check=True)),
        _each(POSIX_SPAWN, _posix_spawn),
        _each(ASYNCIO, _AsyncioWay().run),
        Contender(name=BARE, unit="us", take=_bare),
    ]
    figures = interleave(contenders, scale.rounds, scale.warm_up) + missing
    return figures if missing else figures + measure_parts(OURS, _once, _PARTS, scale.rounds)


def _once() -> Callable[[], object]:
    return run(_COMMAND, containment=Containment.CGROUP).check


def _each(name: str, call: Callable[[], object]) -> Contender:
    return Contender(name=name, unit="us", take=lambda: once_us(call, _TIMES))


def _ours() -> tuple[list[Contender], list[Figure]]:
    descendants = _each(OURS_DESCENDANTS, lambda: run(_COMMAND, containment=Containment.DESCENDANTS).check())
    root = find_cgroup_root()
    if root is None:
        return [descendants], [absent(name, "us", NONE_HERE) for name in (OURS, BARE_CGROUP)]
    bare = Contender(name=BARE_CGROUP, unit="us", take=lambda: _bare_cgroup(f"{root.steps}/bare-{os.getpid()}"))
    return [_each(OURS, lambda: run(_COMMAND, containment=Containment.CGROUP).check()), descendants, bare], []


def _posix_spawn() -> None:
    pid = os.posix_spawnp(_COMMAND[0], _COMMAND, os.environ)
    os.waitpid(pid, 0)


class _AsyncioWay:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self) -> None:
        self._loop.run_until_complete(self._once())

    async def _once(self) -> None:
        process = await asyncio.create_subprocess_exec(*_COMMAND)
        await process.wait()


def _argv(path: str) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * 2)(path.encode(), None)


def _bare() -> list[float]:
    once = function("run", "bare_run", ctypes.POINTER(ctypes.c_char_p))
    return [once(_argv(_COMMAND[0])) / 1000 for _ in range(_TIMES + 1)][1:]


def _bare_cgroup(folder: str) -> list[float]:
    once = function("run", "bare_run_cgroup", ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p))
    argv = _argv(shutil.which(_COMMAND[0]) or "/bin/true")
    return [once(folder.encode(), argv) / 1000 for _ in range(_TIMES + 1)][1:]
