"""Processes of every kinship: a forked twin that reports back, a child that is not ours, a number given to someone else."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.payload import Payload
from tests.pidfds import open_pidfd

NOBODY = 65534
_PTRACE_SEIZE = 0x4206


def in_fork(answer: Callable[[], Any], *, uid: int | None = None) -> Any:
    """What `answer()` returns (as JSON) in a forked child, as user `uid` if given."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(answer, write, uid)
    os.close(write)
    with open(read, "rb") as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise AssertionError(f"the forked child failed ({status}): {text.decode(errors='replace')}")
    return json.loads(text)


def _answer(answer: Callable[[], Any], write: int, uid: int | None) -> None:
    try:
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        os.write(write, json.dumps(answer()).encode())
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - nothing may leave this fork of the runner
        os.write(write, repr(error).encode())
        os._exit(1)


class Blocked:
    """A child that waits for its pipe to close, then exits with `code`. Made by fork alone, so that its number can be forced."""

    _holds: ClassVar[set[int]] = set()

    def __init__(self, code: int = 0, name: bytes = b"blocked") -> None:
        read, self._hold = os.pipe()
        ready, named = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for hold in (self._hold, *Blocked._holds):  # else this one would keep the others blocked
                os.close(hold)
            Path("/proc/thread-self/comm").write_bytes(name)
            os.close(named)
            os.read(read, 1)
            os._exit(code)
        os.close(named)
        os.read(ready, 1)
        os.close(ready)
        os.close(read)
        Blocked._holds.add(self._hold)
        self.pidfd = open_pidfd(self.pid)

    def release(self) -> None:
        """Let it end, and do not wait for that."""
        if self._hold >= 0:
            os.close(self._hold)
            Blocked._holds.discard(self._hold)
            self._hold = -1

    def end(self) -> None:
        """Let it end, and wait until it has; it stays a zombie."""
        if self._hold >= 0:
            self.release()
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT)

    def reap(self) -> None:
        """Let it end and reap it. May be called twice."""
        if self.pidfd >= 0:
            try:
                self.end()
                os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
            except ChildProcessError:  # the code under test has reaped it
                pass
            os.close(self.pidfd)
            self.pidfd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.reap()


@contextmanager
def traced(pid: int) -> Iterator[None]:
    """Another process traces our child `pid`: while it does, only that one can reap it. Source: ptrace(2), PTRACE_SEIZE."""
    ready, seized = os.pipe()
    hold, let_go = os.pipe()
    tracer = os.fork()
    if tracer == 0:
        for other in (let_go, *Blocked._holds):
            os.close(other)
        error = ctypes.CDLL(None).ptrace(_PTRACE_SEIZE, pid, None, None)
        os.write(seized, b"s" if error == 0 else b"e")
        os.read(hold, 1)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"s"
        yield
    finally:
        os.close(let_go)
        os.waitpid(tracer, 0)
        for fd in (ready, seized, hold):
            os.close(fd)


def wait_number_free(pid: int) -> None:
    """Wait until another's number, of which a reap was told, is free: by having it. Only in a pid namespace of its own.

    Linux tells of a reap, by a pidfd, by ESRCH and in /proc, before it takes the number back: kernel/exit.c, release_task().
    """
    deadline = time.monotonic() + 20
    had = 0
    while had != pid:
        assert time.monotonic() < deadline, f"process {pid} keeps its number"
        give_next(pid)
        with Blocked() as child:
            had = child.pid


def give_next(pid: int) -> None:
    """Whoever is started next gets the number `pid`, if it is free. Only in a pid namespace of its own."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))


def reborn(pid: int, code: int = 0) -> Blocked:
    """A new child under the number `pid`, which is free. Only in a pid namespace of its own."""
    give_next(pid)
    child = Blocked(code)
    assert child.pid == pid
    return child


class Foster:
    """A process whose parent is not us and reaps it only when told: `tests/payload/foster.c`."""

    def __init__(self, payload: Callable[..., Payload], how: str, number: int) -> None:
        self._parent = payload("foster", how, str(number))
        self.pid = int(self._parent.wait_ready(8), 16)
        self.pidfd = open_pidfd(self.pid)

    def end(self) -> None:
        """Let it end as its arguments say, and wait until it has; it stays a zombie."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGUSR1)
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        assert poll.poll(10_000)

    def reap_soon(self) -> None:
        """Make its parent reap it."""
        self._parent.signal(signal.SIGUSR1)

    def reap(self) -> None:
        """Make its parent reap it, and wait until it has."""
        self.reap_soon()
        assert self._parent.wait_ready() == b"r"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self.pidfd)
