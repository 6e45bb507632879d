"""What one spawn borrows and gives back: descriptors out of the way of 0-2, the null device, and the plan with all looked up."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from spurproc.core._native import lib
from spurproc.core.process.identity import reader
from spurproc.core.spawn.credentials import credentials_of
from spurproc.core.spawn.environment import env_entries, exec_candidates
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.plan_layout import PlanFields
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import InvalidArgument, SpawnError

__all__ = ["FIRST_FREE_FD", "needs_program", "null_open", "raised", "resolve"]

FIRST_FREE_FD = 3
"""0-2 are the job's: whatever else a child needs stands higher, even where the caller runs with them closed."""

_STDIO_STAGES = ("STDIN", "STDOUT", "STDERR")
_NULL = "/dev/null"
_NULL_DEVICE = os.makedev(1, 3)


def raised(fd: int, lent: ExitStack, close: Callable[[int], None] = os.close) -> int:
    """`fd` if it is >= 3, else a close-on-exec copy that is, closed with `lent`."""
    if fd >= FIRST_FREE_FD:
        return fd
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
    lent.callback(close, copy)
    return copy


def null_open(plan: SpawnPlan, lent: ExitStack) -> int:
    """The null device, >= 3. SpawnError where something else stands in its place: a job's output must not pile up there."""
    try:
        fd = os.open(_NULL, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)  # O_RDWR: a FIFO in its place does not block it. fifo(7)
    except OSError as error:
        raise _stdio_failure(plan, "DESCRIPTORS", _NULL, error) from None
    lent.callback(os.close, fd)
    status = os.fstat(fd)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != _NULL_DEVICE:
        detail = f"{_NULL!r} is not the null device, character device 1:3"
        raise SpawnError(errno.ENODEV, SpawnStage.DESCRIPTORS.name, plan.argv0, detail=detail)
    return raised(fd, lent)


def _stdio_failure(plan: SpawnPlan, stage: str, what: str, error: OSError) -> SpawnError:
    return SpawnError(error.errno or errno.EIO, stage, plan.argv0, detail=f"{what}: {error.strerror}")


def needs_program(fields: PlanFields) -> bool:
    """Whether the plan changes credentials or can block, and so must not run in memory shared with the launcher."""
    return bool(
        fields.mode != lib.SPUR_MODE_LEADER
        or fields.flags
        or fields.gate_fd >= 0
        or fields.cgroup_fd >= 0
        or fields.limits
        or fields.affinity
        or fields.cwd is not None
        or any(path is not None for path in fields.stdio_path)
    )


def resolve(plan: SpawnPlan, lent: ExitStack, **more: Any) -> PlanFields:
    """`plan` with its names looked up and its descriptors moved out of the way; `more` are further fields of the layout.

    Raises InvalidArgument; SpawnError for a descriptor that is not open or a null device that is none.
    """
    _refuse_closed(plan)  # before anything is opened, which would take the number of a closed one
    envp = env_entries(plan.env)
    argv = [_encoded("argv", argument) for argument in plan.argv]
    who = credentials_of(plan.user, plan.group, plan.groups)
    cgroup = plan.cgroup
    if cgroup is not None and cgroup.fileno() < 0:
        raise InvalidArgument(f"cgroup: {cgroup.path!r} is closed")
    return PlanFields(
        argv=argv,
        envp=envp,
        candidates=exec_candidates(argv[0], envp),
        facilities=reader().facilities,
        stdio_fd=_stdio_fds(plan, lent),
        stdio_path=_stdio_paths(plan),
        cgroup_fd=-1 if cgroup is None else raised(cgroup.fileno(), lent),
        cgroup_inode=0 if cgroup is None else cgroup.inode,
        uid=who.uid,
        gid=who.gid,
        groups=who.groups,
        umask=plan.umask,
        oom_score_adj=_oom_score_adj(plan),
        no_new_privs=plan.no_new_privs,
        cwd=None if plan.cwd is None else _encoded("cwd", plan.cwd),
        limits=plan.limits_packed,
        affinity=plan.affinity_packed,
        pass_fds=plan.pass_fds,
        **more,
    )


def _refuse_closed(plan: SpawnPlan) -> None:
    for stage, fd in zip(_STDIO_STAGES, plan.stdio, strict=True):
        if isinstance(fd, int):
            _refuse_closed_fd(plan, stage, fd)
    for fd in plan.pass_fds:
        _refuse_closed_fd(plan, "DESCRIPTORS", fd)


def _refuse_closed_fd(plan: SpawnPlan, stage: str, fd: int) -> None:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError as error:
        raise _stdio_failure(plan, stage, f"descriptor {fd}", error) from None


def _stdio_fds(plan: SpawnPlan, lent: ExitStack) -> tuple[int, int, int]:
    null = null_open(plan, lent) if None in plan.stdio else -1
    first, second, third = (
        null if source is None else raised(source, lent) if isinstance(source, int) else -1 for source in plan.stdio
    )
    return first, second, third


def _stdio_paths(plan: SpawnPlan) -> tuple[bytes | None, bytes | None, bytes | None]:
    first, second, third = (
        None if source is None or isinstance(source, int) else _encoded(name, source)
        for name, source in zip(("stdin", "stdout", "stderr"), plan.stdio, strict=True)
    )
    return first, second, third


def _encoded(name: str, text: str | bytes | os.PathLike[str]) -> bytes:
    try:
        return os.fsencode(text)
    except (TypeError, UnicodeError) as error:
        raise InvalidArgument(f"{name}: {error}") from None


def _oom_score_adj(plan: SpawnPlan) -> int | None:
    """Ours may protect us from the kernel's OOM killer; on a job the same value would make it kill bystanders."""
    if plan.oom_score_adj is not None:
        return plan.oom_score_adj
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return 0 if os.read(fd, 16).startswith(b"-") else None
    finally:
        os.close(fd)
