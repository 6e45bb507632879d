"""One call of the C core's spawn: memory made, error codes told apart, what passes by itself tried again."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from typing import Any

from spurproc.core._native import ffi, lib

__all__ = ["CloneRequest", "CloneResult", "clone"]

NOBODY = -1
_PAUSES_S = tuple(0.001 * 2**turn for turn in range(9))
_PASSING = ((lib.SPUR_STAGE_CLONE, errno.EAGAIN), (lib.SPUR_STAGE_EXEC, errno.ETXTBSY))
_HOW, _RET = ffi.typeof("spur_spawn_t *"), ffi.typeof("spur_spawned_t *")


@dataclass(slots=True, kw_only=True, eq=False)
class CloneRequest:
    """What to clone: without `program_fd` the job itself, else the static program, which reads `plan`."""

    plan: bytearray
    detach: bool
    program_fd: int = NOBODY
    cgroup_fd: int = NOBODY


@dataclass(slots=True, kw_only=True, eq=False)
class CloneResult:
    """`pid` and `pidfd` where `started`; else the last `stage`, with the errno there or the wait status of what was killed."""

    started: bool
    pid: int
    pidfd: int
    channel: int
    stage: int
    error: int
    wait_status: int | None
    is_child: bool
    """The caller's to wait for: not detached, or the caller is who takes in what is."""
    start_ticks: int
    """Of /proc/PID/stat, field 22; 0 where /proc cannot be read."""
    inode: int
    """Of its pidfd; 0 where the kernel has none."""


def clone(request: CloneRequest) -> CloneResult:
    """Carry out `request`. A refusal by the kernel comes back as stage CLONE; OSError is for what is made before.

    Two refusals pass by themselves and are tried again for half a second: a full process table (EAGAIN by pids.max or
    RLIMIT_NPROC), and a program still open for writing (ETXTBSY). The child cannot wait for the latter: it holds a copy of
    every descriptor of the caller, so perhaps the very one that is in the way.
    """
    for pause_s in _PAUSES_S:
        result = _clone_once(request)
        if (result.stage, result.error) not in _PASSING:
            return result
        time.sleep(pause_s)  # noqa: TID251 - neither gives an event to wait for
    return _clone_once(request)


def _clone_once(request: CloneRequest) -> CloneResult:
    memory = ffi.from_buffer(request.plan, require_writable=True)
    read_stat = _clock_agrees is not True
    how: Any = ffi.new(_HOW, (memory, len(request.plan), request.program_fd, request.cgroup_fd, request.detach, read_stat))
    ret: Any = ffi.new(_RET)
    try:
        _check(lib.spur_spawn(how, ret))
        return CloneResult(
            started=bool(ret.started),
            pid=ret.pid,
            pidfd=ret.pidfd,
            channel=ret.channel,
            stage=ret.stage,
            error=ret.error,
            wait_status=ret.wait_status if ret.ended else None,
            is_child=bool(ret.is_child),
            start_ticks=_start_ticks(ret.clock_ticks, ret.stat_ticks),
            inode=ret.inode,
        )
    except BaseException:  # KeyboardInterrupt: what came while the call slept is raised at its end
        lib.spur_spawn_undo(ret)
        raise


def _check(code: int) -> None:
    if code < 0:
        raise OSError(-code, os.strerror(-code))


_clock_agrees: bool | None = None


def _start_ticks(by_clock: int, by_stat: int) -> int:
    """The child's start by its own word, or by the clock once that was seen to say the same in this process.

    A kernel or a sandbox that counts otherwise must not make identities that match nothing.
    """
    global _clock_agrees  # noqa: PLW0603 - one clock a process
    if _clock_agrees is None and by_clock and by_stat:
        _clock_agrees = by_clock == by_stat
    return by_stat or (by_clock if _clock_agrees else 0)
