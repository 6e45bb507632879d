"""Spawn a plan and collect what it wrote and how it ended."""

from __future__ import annotations

import fcntl
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.exit_info import ExitInfo
from spurproc.core.spawn.spawn import Spawned, SpawnPlan, SpawnStage, spawn
from spurproc.core.spawn.starting import Starting, read_progress
from tests.pace import readable

PYTHON = sys.executable
_TIMEOUT_S = 20.0

Fields = dict[str, Any]
PLAIN: Fields = {}
THROUGH_PROGRAM: Fields = {"umask": 0o22}
DETACHED: Fields = {"detach": True}
ROUTES = (PLAIN, THROUGH_PROGRAM)
"""Fields that send a plan along each of the two ways to its exec."""

DETACH = pytest.mark.parametrize("detach", [False, True], ids=["child", "detached"])
DETACH_AND_STATUS = pytest.mark.parametrize(
    "detach",
    [
        pytest.param(False, id="child"),
        # Only the kernel's record tells how a process ended that others have reaped.
        pytest.param(True, id="detached", marks=pytest.mark.needs_facility("pidfd_exit_info")),
    ],
)


def wait_end(spawned: Spawned) -> ExitInfo:
    """Wait for its end (reaped if it is our child) and let go of it."""
    info = spawned.pidfd.wait(_TIMEOUT_S)
    spawned.pidfd.close()
    return info


def await_stage(starting: Starting, stage: SpawnStage) -> None:
    """Until it has said that it is about to take that step: it blocks there, and nowhere before."""
    assert starting.channel is not None
    while (progress := read_progress(starting.channel)).stage is not stage:
        assert not progress.ended, progress
        os.sched_yield()


def output_of(argv: list[str | bytes | Path], **fields: Any) -> tuple[bytes, ExitInfo]:
    """Everything on its stdout until the last holder closed it, and how it ended."""
    read_fd, write_fd = os.pipe()
    try:
        spawned = spawn(SpawnPlan(argv=argv, stdout=write_fd, **fields))
        os.close(write_fd)
        write_fd = -1
        data = read_to_end(read_fd)
    finally:
        os.close(read_fd)
        if write_fd >= 0:
            os.close(write_fd)
    return data, wait_end(spawned)


def read_to_end(fd: int, timeout_s: float = _TIMEOUT_S) -> bytes:
    """Until EOF; TimeoutError if nothing comes for so long."""
    data = b""
    while True:
        if not readable(fd, timeout_s):
            raise TimeoutError(f"nothing more came after {data!r}")
        chunk = os.read(fd, 65536)
        if not chunk:
            return data
        data += chunk


def in_child(body: Callable[[], None], timeout_s: float = _TIMEOUT_S) -> None:
    """Run `body` in a forked child of its own, which may change its credentials, limits and descriptors; raise what it raised."""
    read_fd, write_fd = os.pipe()
    high = fcntl.fcntl(write_fd, fcntl.F_DUPFD_CLOEXEC, 500)
    os.close(write_fd)
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException:  # noqa: BLE001 - handed to the test
            os.write(high, traceback.format_exc().encode(errors="backslashreplace"))
        finally:
            os._exit(0)
    os.close(high)
    problem = read_to_end(read_fd, timeout_s)
    os.close(read_fd)
    status = os.waitpid(pid, 0)[1]
    if problem or status:
        raise AssertionError(problem.decode() or f"the child ended with wait status {status:#x}")


def no_child_is_left() -> None:
    """Not even one that sends no SIGCHLD (__WALL)."""
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | 0x40000000)


def status_fields(text: bytes) -> dict[str, str]:
    """/proc/PID/status as a dict."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.decode().splitlines())}
