"""One call of the C core's spawn: memory made, error codes told apart, what passes by itself tried again."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spurproc.core._native import ffi, lib

__all__ = ["CloneRequest", "CloneResult", "clone"]

NOBODY = -1
_PAUSES_S = tuple(0.001 * 2**turn for turn in range(9))


@dataclass(slots=True, kw_only=True, eq=False)
class CloneRequest:
    """What to clone: with `plan` the job itself, else the program at `program_fd`, whose plan is at `plan_fd`."""

    facilities: int
    detach: bool
    stdio_fd: tuple[int, int, int]
    keep: Sequence[int]
    plan: bytes | None = None
    program_fd: int = NOBODY
    plan_fd: int = NOBODY
    cgroup_fd: int = NOBODY
    channel_fd: int = NOBODY
    """The program's end of its channel in the child; here it is one end of a carrier, over which ours comes back."""
    carrier_fd: int = NOBODY
    """The other end of the carrier."""


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


def clone(request: CloneRequest) -> CloneResult:
    """Carry out `request`. A refusal by the kernel comes back as stage CLONE.

    Two refusals pass by themselves and are tried again for half a second: a full process table (EAGAIN by pids.max or
    RLIMIT_NPROC), and a program still open for writing (ETXTBSY). The child cannot wait for the latter: it holds a copy of
    every descriptor of the caller, so perhaps the very one that is in the way.
    """
    for pause_s in _PAUSES_S:
        result = _clone_once(request)
        if not _passes(result):
            return result
        time.sleep(pause_s)  # noqa: TID251 - neither gives an event to wait for
    return _clone_once(request)


def _passes(result: CloneResult) -> bool:
    """Whether what was refused may be granted a moment later."""
    return (result.stage, result.error) in {(lib.SPUR_STAGE_CLONE, errno.EAGAIN), (lib.SPUR_STAGE_EXEC, errno.ETXTBSY)}


def _clone_once(request: CloneRequest) -> CloneResult:
    how: Any = ffi.new("spur_spawn_t *")
    ret: Any = ffi.new("spur_spawned_t *")
    keep = ffi.new("int32_t[]", list(request.keep))
    if request.plan is not None:
        memory = bytearray(request.plan)  # the core turns offsets into pointers where they stand
        how.plan, how.plan_bytes = ffi.from_buffer(memory, require_writable=True), len(memory)
    how.program_fd, how.plan_fd, how.cgroup_fd = request.program_fd, request.plan_fd, request.cgroup_fd
    how.facilities, how.detach = request.facilities, request.detach
    how.channel_fd, how.carrier_fd, how.stdio_fd = request.channel_fd, request.carrier_fd, request.stdio_fd
    how.keep, how.keep_count = keep, len(request.keep)
    how.read_stat = _clock_agrees is not True
    try:
        code = lib.spur_spawn(how, ret)
        if code < 0:
            ret.pid = ret.pidfd = ret.channel = NOBODY
            ret.stage, ret.error = lib.SPUR_STAGE_CLONE, -code
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
        )
    except BaseException:  # KeyboardInterrupt: what came while the call slept is raised at its end
        lib.spur_spawn_undo(ret)
        raise


_clock_agrees: bool | None = None


def _start_ticks(by_clock: int, by_stat: int) -> int:
    """The child's start by its own word, or by the clock once that was seen to say the same in this process.

    A kernel or a sandbox that counts otherwise must not make identities that match nothing.
    """
    global _clock_agrees  # noqa: PLW0603 - one clock a process
    if _clock_agrees is None and by_clock and by_stat:
        _clock_agrees = by_clock == by_stat
    return by_stat or (by_clock if _clock_agrees else 0)
