"""The ways of starting a program that are compared, in a process of their own: `python -m benchmarks.spawn_ways HEAP_MIB`.

Each is timed until its promise is kept, which for all of them is that the program was exec'd; the end of the program is
waited for outside of that time.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import select
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bare import function
from benchmarks.cgroup_home import NONE_HERE, fresh_cgroup
from benchmarks.fork_fork import start_daemon
from benchmarks.measure import Contender, Start, each_us
from benchmarks.through import LOWERED, lowered_us
from benchmarks.worker import serve
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn

PLAIN_DETACHED = "spawn, plain, detached"
PLAIN_CHILD = "spawn, plain"
FULL_CHILD = "spawn, user + limits + cgroup"
FULL_DETACHED = "spawn, user + limits + cgroup, detached"
BARE = "bare C, plain, detached"
POSIX_SPAWN = "os.posix_spawn"
POPEN = "subprocess.Popen"
ASYNCIO = "asyncio"
FORK_FORK = "fork-fork daemon"

_PROGRAM = "/bin/true"
_LIMITS = {resource.RLIMIT_NOFILE: (100, 200)}
_TIMES = 5


def spawn_once(subject: SpawnPlan) -> Callable[[], object]:
    """Ours: identity, pidfd, clean start."""
    spawned = spawn(subject)

    def clear() -> None:
        _await_end(spawned.pidfd.fileno())
        if not subject.detach:
            spawned.pidfd.wait()
        spawned.pidfd.close()

    return clear


def _await_end(pidfd: int) -> None:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()


def posix_spawn() -> Callable[[], object]:
    """The fastest start that the standard library has: a child, no session, no identity, no pidfd, no clean start."""
    pid = os.posix_spawn(_PROGRAM, [_PROGRAM], os.environ)
    return partial(os.waitpid, pid, 0)


def popen() -> Callable[[], object]:
    """What most programs use; a child with a session of its own."""
    return subprocess.Popen([_PROGRAM], start_new_session=True).wait


class AsyncioWay:
    """asyncio.create_subprocess_exec in a loop that is there already."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def start(self) -> Callable[[], object]:
        """Start one; the loop runs until it is."""
        process = self._loop.run_until_complete(asyncio.create_subprocess_exec(_PROGRAM, start_new_session=True))
        return lambda: self._loop.run_until_complete(process.wait())


def fork_fork() -> Callable[[], object]:
    """A daemon by double fork in Python. The daemon holds a pipe, which tells of its end."""
    end_fd, held_fd = os.pipe()
    os.set_inheritable(held_fd, True)
    start_daemon([_PROGRAM])
    os.close(held_fd)

    def clear() -> None:
        os.read(end_fd, 1)
        os.close(end_fd)

    return clear


def bare_us(times: int) -> list[float]:
    """The floor: the system calls of the plain detached spawn, from C."""
    once = function("spawn", "bare_spawn_detached", ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_int))
    argv, pidfd = (ctypes.c_char_p * 2)(_PROGRAM.encode(), None), ctypes.c_int(-1)
    taken = []
    for _ in range(times + 1):
        taken.append(once(argv, ctypes.byref(pidfd)) / 1000)
        _await_end(pidfd.value)
        os.close(pidfd.value)
    return taken[1:]


def _each(name: str, start: Start) -> Contender:
    return Contender(name=name, unit="us", take=lambda: each_us(start, _TIMES))


def plan(**fields: Any) -> SpawnPlan:
    """The program of all ways."""
    return SpawnPlan(argv=[_PROGRAM], **fields)


def full_plan(cgroup: Cgroup | None, *, detach: bool = False) -> SpawnPlan:
    """A plan that has to go through the static program."""
    return plan(user="nobody", limits=_LIMITS, cgroup=cgroup, detach=detach)


def why_not_full(cgroup: Cgroup | None) -> str:
    """Why `full_plan` cannot be measured here; empty where it can."""
    return NONE_HERE if cgroup is None else "" if os.geteuid() == 0 else "needs root"


def _contenders(cgroup: Cgroup | None) -> list[Contender]:
    ways = [
        _each(PLAIN_DETACHED, partial(spawn_once, plan(detach=True))),
        Contender(name=BARE, unit="us", take=lambda: bare_us(_TIMES)),
        _each(POSIX_SPAWN, posix_spawn),
        _each(POPEN, popen),
        _each(ASYNCIO, AsyncioWay().start),
        _each(PLAIN_CHILD, partial(spawn_once, plan())),
    ]
    if cgroup is not None and not why_not_full(cgroup):
        ways.append(Contender(name=LOWERED, unit="us", take=lambda: lowered_us(_PROGRAM, cgroup.fileno(), _TIMES)))
        ways.append(_each(FULL_CHILD, partial(spawn_once, full_plan(cgroup))))
        ways.append(_each(FULL_DETACHED, partial(spawn_once, full_plan(cgroup, detach=True))))
    # Once a round and without a first one: its cost is copied page tables, which nothing warms up.
    return [*ways, Contender(name=FORK_FORK, unit="us", take=lambda: each_us(fork_fork, 1, untimed=0))]


def main() -> None:
    """Serve."""
    with fresh_cgroup("spawn") as cgroup:
        why = why_not_full(cgroup)
        serve(_contenders(cgroup), dict.fromkeys((FULL_CHILD, FULL_DETACHED, LOWERED), why) if why else {}, int(sys.argv[1]))


if __name__ == "__main__":
    main()
