"""Living processes to ask about and to signal. They end when their stdin does, so none outlives the run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.bare import program
from benchmarks.cgroup_home import fresh_cgroup
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import Spawned, spawn


class Tree:
    """A leader and its children, `count` in all. Signalled with SIGTERM each of them answers, unless they are `deaf`."""

    def __init__(self, count: int, cgroup: Cgroup | None = None, *, deaf: bool = False) -> None:
        command = [str(program("members")), str(count), *(["ignore"] if deaf else [])]
        if cgroup is not None:
            command = ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', cgroup.path, *command]
        self.count = count
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.await_answers()

    @property
    def leader(self) -> int:
        """Its pid; it is a child of the caller and not reaped before the end."""
        return self._process.pid

    @property
    def popen(self) -> subprocess.Popen[bytes]:
        """The leader as the standard library holds it."""
        return self._process

    def await_answers(self) -> None:
        """Wait for one byte of each member."""
        left = self.count
        while left > 0 and self._process.stdout is not None:
            answered = len(self._process.stdout.read(left))
            if not answered:
                raise RuntimeError(f"{left} of {self.count} members have not answered")
            left -= answered

    def end(self) -> None:
        """Let all of them end, and wait until the last has."""
        self._process.communicate()


@contextmanager
def tree(count: int, cgroup: Cgroup | None = None, *, deaf: bool = False) -> Iterator[Tree]:
    """A tree that ends with the block."""
    made = Tree(count, cgroup, deaf=deaf)
    try:
        yield made
    finally:
        made.end()


@contextmanager
def many(count: int) -> Iterator[tuple[list[Spawned], list[Cgroup]]]:
    """`count` processes of no kinship, each in a cgroup of its own; no cgroups where none can be made."""
    hold_fd, held_fd = os.pipe()
    with ExitStack() as stack:
        parent = stack.enter_context(fresh_cgroup("many"))
        paths = [] if parent is None else [f"{parent.path}/{number}" for number in range(count)]
        cgroups = [stack.enter_context(Cgroup.create(path)) for path in paths]
        spawned: list[Spawned] = []
        stack.callback(_end, spawned, held_fd)
        for number in range(count):
            plan = SpawnPlan(argv=[program("members"), "1"], stdin=hold_fd, cgroup=cgroups[number] if cgroups else None)
            spawned.append(spawn(plan))
        os.close(hold_fd)
        yield spawned, cgroups


def _end(spawned: list[Spawned], held_fd: int) -> None:
    os.close(held_fd)
    for one in spawned:
        one.pidfd.wait()
        one.pidfd.close()
