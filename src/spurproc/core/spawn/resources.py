"""What one spawn borrows and gives back: descriptors out of the way of 0-2; and its plan with all looked up."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack
from typing import Any

from spurproc.core._native import lib
from spurproc.core.process.identity import reader
from spurproc.core.spawn.credentials import credentials_of
from spurproc.core.spawn.environment import env_entries, exec_candidates
from spurproc.core.spawn.plan import SpawnPlan, Stdio
from spurproc.core.spawn.plan_layout import PlanFields
from spurproc.errors import InvalidArgument, SpawnError

__all__ = ["needs_program", "raised", "resolve"]

_FIRST_FREE_FD = 3
"""0-2 are the job's: whatever else a child needs stands higher, even where the caller runs with them closed."""

_STDIO_STAGES = ("STDIN", "STDOUT", "STDERR")
_NO_FD = -1
_NO_PATHS = (None, None, None)


def raised(fd: int, lent: ExitStack) -> int:
    """`fd` if it is >= 3, else a close-on-exec copy that is, closed with `lent`."""
    if fd >= _FIRST_FREE_FD:
        return fd
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
    lent.callback(os.close, copy)
    return copy


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
        or fields.stdio_path != _NO_PATHS
    )


def resolve(plan: SpawnPlan, lent: ExitStack, **more: Any) -> PlanFields:
    """`plan` with its names looked up and its descriptors moved out of the way; `more` are further fields of the layout.

    Raises InvalidArgument; SpawnError for a descriptor that is not open.
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
        stdio_fd=(_stdio_fd(plan.stdin, lent), _stdio_fd(plan.stdout, lent), _stdio_fd(plan.stderr, lent)),
        stdio_path=(_stdio_path("stdin", plan.stdin), _stdio_path("stdout", plan.stdout), _stdio_path("stderr", plan.stderr)),
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
        raise SpawnError(error.errno or errno.EIO, stage, plan.argv0, detail=f"descriptor {fd}: {error.strerror}") from None


def _stdio_fd(source: Stdio, lent: ExitStack) -> int:
    return raised(source, lent) if isinstance(source, int) else _NO_FD


def _stdio_path(name: str, source: Stdio) -> bytes | None:
    return None if source is None or isinstance(source, int) else _encoded(name, source)


def _encoded(name: str, text: str | bytes | os.PathLike[str]) -> bytes:
    try:
        return os.fsencode(text)
    except (TypeError, UnicodeError) as error:
        raise InvalidArgument(f"{name}: {error}") from None


def _oom_score_adj(plan: SpawnPlan) -> int | None:
    """Ours may protect us from the kernel's OOM killer; on a job the same value would make it kill bystanders."""
    if plan.oom_score_adj is not None:
        return plan.oom_score_adj
    return 0 if lib.spur_oom_protected() else None
