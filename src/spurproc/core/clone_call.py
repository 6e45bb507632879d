"""One call of the C core's spawn: memory made, error codes told apart, a full process table tried again."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spurproc.core._native import ffi, lib

__all__ = ["CloneRequest", "CloneResult", "clone"]

NOBODY = -1
_EAGAIN_PAUSES_S = (0.01, 0.02, 0.04)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    timeout_s: float = 10.0
    """Until the exec, for a child in copied memory (no clone3). In shared memory the caller sleeps until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """`pid` and `pidfd` where `started`; else the last `stage`, with the errno there or the wait status of what was killed."""

    started: bool
    pid: int
    pidfd: int
    stage: int
    error: int
    wait_status: int | None
    start_ticks: int


def clone(request: CloneRequest) -> CloneResult:
    """Carry out `request`. A refusal by the kernel comes back as stage CLONE.

    EAGAIN (pids.max, RLIMIT_NPROC) is tried again within 0.1 s: processes end all the time.
    """
    for pause_s in _EAGAIN_PAUSES_S:
        result = _clone_once(request)
        if result.error != errno.EAGAIN or result.stage != lib.SPUR_STAGE_CLONE:
            return result
        time.sleep(pause_s)  # noqa: TID251 - a full process table gives no event to wait for
    return _clone_once(request)


def _clone_once(request: CloneRequest) -> CloneResult:
    how: Any = ffi.new("spur_spawn_t *")
    ret: Any = ffi.new("spur_spawned_t *")
    keep = ffi.new("int32_t[]", list(request.keep))
    if request.plan is not None:
        memory = bytearray(request.plan)  # the core turns offsets into pointers where they stand
        how.plan, how.plan_bytes = ffi.from_buffer(memory, require_writable=True), len(memory)
    how.program_fd, how.plan_fd, how.cgroup_fd = request.program_fd, request.plan_fd, request.cgroup_fd
    how.facilities, how.detach = request.facilities, request.detach
    how.stdio_fd, how.timeout_ms = request.stdio_fd, int(request.timeout_s * 1000)
    how.keep, how.keep_count = keep, len(request.keep)
    code = lib.spur_spawn(how, ret)
    if code < 0:
        return CloneResult(
            started=False, pid=-1, pidfd=-1, stage=lib.SPUR_STAGE_CLONE, error=-code, wait_status=None, start_ticks=0
        )
    return CloneResult(
        started=bool(ret.started),
        pid=ret.pid,
        pidfd=ret.pidfd,
        stage=ret.stage,
        error=ret.error,
        wait_status=ret.wait_status if ret.ended else None,
        start_ticks=ret.start_ticks,
    )
