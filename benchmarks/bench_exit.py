"""How soon does one who is not the parent know that a process has ended, and does it sleep until then?"""

from __future__ import annotations

import asyncio
import ctypes
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import psutil

from benchmarks.bare import function, program
from benchmarks.measure import Contender, Figure, absent, interleave, once_us
from benchmarks.parts import part
from benchmarks.peers import lacking, pidfd_package
from benchmarks.scale import Scale
from spurproc.core.process.pidfd import Pidfd

WAIT = "Pidfd.wait"
WAIT_ASYNC = "Pidfd.wait_async"
BARE_POLL = "bare C, poll until it has ended"
BARE_LEARN = "bare C, poll until it is reaped, and its status"
PSUTIL = "psutil wait"
PACKAGE = "pidfd package and select.poll"
POLLS = "select.poll until it is reaped, without its status"
AFTERWARDS = part(WAIT, "all but the sleep, for one that was reaped before")

_WORD = struct.Struct("=Q")
_TIMES = 5
_ASLEEP_S = 0.05

Wait = Callable[[int], Callable[[], int]]
"""Takes hold of the process with that pid. What it returns waits for the end and says when it knew: ns of CLOCK_MONOTONIC."""


def wakeups(wait: str) -> str:
    """The figure of how often a wait wakes up while nothing happens."""
    return f"wake-ups while it runs, {wait}"


def measure(scale: Scale) -> list[Figure]:
    """From the last instruction of a process to the watcher's return; its parent, another program, reaps it at once.

    Then each kind of wait once more, for a process that just lives: how often its thread gave up the CPU of its own accord, which
    is how often it had woken up. proc_pid_status(5), voluntary_ctxt_switches
    """
    ways: dict[str, Wait] = {
        WAIT: _wait,
        WAIT_ASYNC: _wait_async,
        POLLS: _polls,
        BARE_POLL: partial(_bare, "bare_poll_end"),
        PSUTIL: _psutil,
    }
    missing = []
    if why := lacking("pidfd_exit_info"):
        missing.append(absent(BARE_LEARN, "us", why))
    else:
        ways[BARE_LEARN] = partial(_bare, "bare_learn_end")
    if pidfd_package():
        ways[PACKAGE] = _package
    else:
        missing.append(absent(PACKAGE, "us", "not installed"))
    with _mortal() as mortal:
        contenders = [Contender(name=name, unit="us", take=partial(mortal.latencies_us, wait)) for name, wait in ways.items()]
        figures = interleave(contenders, scale.fewer(2), scale.warm_up)
        idle = [
            Figure(name=wakeups(name), unit="", rounds=[[mortal.wakeups(ways[name], scale.idle_s)]])
            for name in (WAIT, WAIT_ASYNC, BARE_POLL, PSUTIL)
        ]
        figures.append(Figure(name=AFTERWARDS, unit="us", rounds=[mortal.afterwards_us() for _ in range(scale.fewer(2))]))
    return figures + missing + idle


class _Mortal:
    """The program that has the processes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([program("mortal")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def _tell(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(b".")

    def _hear(self) -> int:
        said = b"" if self._process.stdout is None else self._process.stdout.read(_WORD.size)
        word: int = _WORD.unpack(said)[0]
        return word

    def latencies_us(self, wait: Wait) -> list[float]:
        """Of a few ends, one after the other."""
        taken = []
        for _ in range(_TIMES):
            self._tell()
            hold = wait(self._hear())
            self._tell()  # it ends only after a while in which the watcher falls asleep
            known_ns = hold()
            taken.append((known_ns - self._hear()) / 1000)
        return taken

    def afterwards_us(self) -> list[float]:
        """Of a wait that has nothing to wait for."""
        self._tell()
        with Pidfd.open(self._hear()) as pidfd:
            self._tell()
            pidfd.wait()
            self._hear()
            return once_us(pidfd.wait, _TIMES)

    def wakeups(self, wait: Wait, idle_s: float) -> float:
        """How often a thread in `wait` woke up in `idle_s` of nothing."""
        self._tell()
        waiter = threading.Thread(target=wait(self._hear()))
        waiter.start()
        time.sleep(_ASLEEP_S)  # noqa: TID251 - time to fall asleep; too little shows as a wake-up
        before = _switches(waiter.native_id)
        time.sleep(idle_s)  # noqa: TID251 - that nothing happens has no event
        woken = _switches(waiter.native_id) - before
        self._tell()
        waiter.join()
        self._hear()
        return woken

    def end(self) -> None:
        self._process.communicate()


@contextmanager
def _mortal() -> Iterator[_Mortal]:
    mortal = _Mortal()
    try:
        yield mortal
    finally:
        mortal.end()


def _switches(thread_id: int | None) -> int:
    lines = Path(f"/proc/self/task/{thread_id}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _wait(pid: int) -> Callable[[], int]:
    pidfd = Pidfd.open(pid)

    def wait() -> int:
        with pidfd:
            pidfd.wait()
            return time.monotonic_ns()

    return wait


def _wait_async(pid: int) -> Callable[[], int]:
    pidfd, loop = Pidfd.open(pid), asyncio.new_event_loop()

    async def wait() -> int:
        with pidfd:
            await pidfd.wait_async()
            return time.monotonic_ns()

    def run() -> int:
        with closing(loop):
            return loop.run_until_complete(wait())

    return run


def _polls(pid: int) -> Callable[[], int]:
    pidfd, ended, reaped = Pidfd.open(pid), select.poll(), select.poll()
    ended.register(pidfd.fileno(), select.POLLIN)
    reaped.register(pidfd.fileno(), 0)

    def wait() -> int:
        with pidfd:
            ended.poll()
            reaped.poll()
            return time.monotonic_ns()

    return wait


def _bare(symbol: str, pid: int) -> Callable[[], int]:
    pidfd, call = Pidfd.open(pid), function("exit", symbol, ctypes.c_int)

    def wait() -> int:
        with pidfd:
            return int(call(pidfd.fileno()))

    return wait


def _psutil(pid: int) -> Callable[[], int]:
    process = psutil.Process(pid)
    return lambda: (process.wait(), time.monotonic_ns())[1]


def _package(pid: int) -> Callable[[], int]:
    held = pidfd_package().PidFd.open(pid)

    def wait() -> int:
        with held:
            poll = select.poll()
            poll.register(held.fileno(), select.POLLIN)
            poll.poll()
            return time.monotonic_ns()

    return wait
