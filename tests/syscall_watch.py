"""Hold a process still at one system call and act: a seccomp notification, answered by a thread. For forked tests.

Source: seccomp_unotify(2). A launcher that sleeps in a vfork is one thread; the others go on.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.seccomp import filter_program

_MACHINE = os.uname().machine
NUMBERS = {
    "fdatasync": {"x86_64": 75, "aarch64": 83},
    "flock": {"x86_64": 73, "aarch64": 32},
    "fsync": {"x86_64": 74, "aarch64": 82},
    "ftruncate": {"x86_64": 77, "aarch64": 46},
    "pidfd_open": {"x86_64": 434, "aarch64": 434},
    "pwrite64": {"x86_64": 18, "aarch64": 68},
    "renameat": {"x86_64": 264, "aarch64": 38},
    "waitid": {"x86_64": 247, "aarch64": 95},
    "rt_sigaction": {"x86_64": 13, "aarch64": 134},
    "execve": {"x86_64": 59, "aarch64": 221},
    "execveat": {"x86_64": 322, "aarch64": 281},
    "seccomp": {"x86_64": 317, "aarch64": 277},
    "setresuid": {"x86_64": 117, "aarch64": 147},
}
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _NEW_LISTENER, _RET_USER_NOTIF = 1, 8, 0x7FC00000
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTICE, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")


def number(name: str) -> int:
    """The system call's number on this machine."""
    return NUMBERS[name][_MACHINE]


@contextmanager
def held_at(name: str, act: Callable[[int], None], *, uid: int | None = None, passed: int = 0) -> Iterator[None]:
    """At the first `name` that a child of this thread makes, `act(pid)` runs in a thread (as `uid`); then the call goes on.

    `passed`: how many of them go on before that one.

    The pid is pinned meanwhile. What `act` raises is raised at the end.
    """
    listener: list[int] = []
    ready, failures = threading.Event(), list[BaseException]()
    thread = threading.Thread(target=_serve, args=(listener, ready, act, uid, passed, failures))
    thread.start()  # before the filter, which it must not stand under
    listener.append(_install(number(name)))
    ready.set()
    try:
        yield
    finally:
        thread.join(20)
    assert not thread.is_alive(), f"nobody called {name}"
    if failures:
        raise failures[0]


def _serve(
    listener: list[int],
    ready: threading.Event,
    act: Callable[[int], None],
    uid: int | None,
    passed: int,
    failures: list[BaseException],
) -> None:
    ready.wait()
    libc = ctypes.CDLL(None, use_errno=True)
    if uid is not None:  # by the raw call, which changes this thread alone
        libc.syscall(number("setresuid"), uid, uid, uid)
    mine, met = os.getpid(), 0
    while met <= passed:
        notice = bytearray(_NOTICE.size)
        fcntl.ioctl(listener[0], _RECEIVE, notice)
        identifier, pid = _NOTICE.unpack(notice)[:2]
        met += pid != mine
        if met > passed:
            try:
                act(pid)
            except BaseException as error:  # noqa: BLE001 - handed to the test
                failures.append(error)
        fcntl.ioctl(listener[0], _SEND, _ANSWER.pack(identifier, 0, 0, _CONTINUE))
    threading.Thread(target=_pass_all, args=(listener[0],), daemon=True).start()


def _pass_all(listener: int) -> None:
    while True:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(_NOTICE.unpack(notice)[0], 0, 0, _CONTINUE))
        except OSError:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One system call: who made it, its name, its arguments as numbers."""

    pid: int
    name: str
    arguments: tuple[int, ...]


def watched(*names: str) -> list[Call]:
    """From now on every call of these names by this thread and its children is noted in the list, in order, and goes on.

    For the rest of a fork: its processes must have ended before it does.
    """
    listener: list[int] = []
    ready, calls = threading.Event(), list[Call]()
    threading.Thread(target=_note, args=(listener, ready, calls), daemon=True).start()  # before the filter
    listener.append(_install(*map(number, names)))
    ready.set()
    return calls


def _note(listener: list[int], ready: threading.Event, calls: list[Call]) -> None:
    ready.wait()
    names = {numbers[_MACHINE]: name for name, numbers in NUMBERS.items()}
    while True:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener[0], _RECEIVE, notice)
            identifier, pid, _, called, _, _, *arguments = _NOTICE.unpack(notice)
            calls.append(Call(pid=pid, name=names[called], arguments=tuple(arguments)))
            fcntl.ioctl(listener[0], _SEND, _ANSWER.pack(identifier, 0, 0, _CONTINUE))
        except OSError:
            return


def _install(*calls: int) -> int:
    program, code = filter_program(calls, _RET_USER_NOTIF)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    fd: int = libc.syscall(number("seccomp"), _SET_MODE_FILTER, _NEW_LISTENER, program)
    del code
    if fd < 0:
        raise OSError(ctypes.get_errno(), "cannot install a seccomp listener")
    return fd
