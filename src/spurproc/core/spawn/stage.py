"""How far a program came before it started or did not."""

from __future__ import annotations

import enum

from spurproc.core._native import lib

__all__ = ["SpawnStage"]


class SpawnStage(enum.IntEnum):
    """The steps from clone to exec, roughly in the order in which they are taken: where a start failed, or stands.

    The numbers are the C core's (csrc/plan.h) and stand in exit records. A plain plan goes from DESCRIPTORS to EXEC; any other
    has the static program take the rest, up to the exec, in memory of its own.
    """

    NONE = lib.SPUR_STAGE_NONE
    """No code of the child ran."""
    CLONE = lib.SPUR_STAGE_CLONE
    """clone(2) itself: EAGAIN at a limit of processes, ENOMEM."""
    CHILD = lib.SPUR_STAGE_CHILD
    """The child's first instruction."""
    SIGNALS = lib.SPUR_STAGE_SIGNALS
    """Default dispositions and an empty mask. sigaction(2)."""
    SESSION = lib.SPUR_STAGE_SESSION
    """A session and group of its own. setsid(2)."""
    DESCRIPTORS = lib.SPUR_STAGE_DESCRIPTORS
    """0 to 2 and `pass_fds` in place, all others close-on-exec. dup2(2), close_range(2)."""
    PROGRAM = lib.SPUR_STAGE_PROGRAM
    """The exec of spurproc-exec, which takes the steps below."""
    PLAN = lib.SPUR_STAGE_PLAN
    """The static program reads what it is to do."""
    CGROUP = lib.SPUR_STAGE_CGROUP
    """Birth in the cgroup, or the move into it. EACCES: it lies outside of what was delegated. EBUSY: it is frozen."""
    OOM_SCORE_ADJ = lib.SPUR_STAGE_OOM_SCORE_ADJ
    """proc_pid_oom_score_adj(5). EACCES: lowering it takes CAP_SYS_RESOURCE."""
    LIMITS = lib.SPUR_STAGE_LIMITS
    """prlimit(2). EPERM: raising a hard limit takes CAP_SYS_RESOURCE."""
    AFFINITY = lib.SPUR_STAGE_AFFINITY
    """sched_setaffinity(2). EINVAL also where the kernel would quietly have left out a CPU."""
    UMASK = lib.SPUR_STAGE_UMASK
    """umask(2)."""
    GROUPS = lib.SPUR_STAGE_GROUPS
    """setgroups(2)."""
    GID = lib.SPUR_STAGE_GID
    """setresgid(2)."""
    UID = lib.SPUR_STAGE_UID
    """setresuid(2). EAGAIN: that user's limit of processes."""
    CWD = lib.SPUR_STAGE_CWD
    """chdir(2), as the job's user. May block on a network file system."""
    STDIN = lib.SPUR_STAGE_STDIN
    """open(2) of a path, as the job's user. May block: a FIFO, a network file system."""
    STDOUT = lib.SPUR_STAGE_STDOUT
    """As STDIN."""
    STDERR = lib.SPUR_STAGE_STDERR
    """As STDIN."""
    NO_NEW_PRIVS = lib.SPUR_STAGE_NO_NEW_PRIVS
    """prctl(2), PR_SET_NO_NEW_PRIVS."""
    GATE = lib.SPUR_STAGE_GATE
    """Waiting for the word of whoever supervises it. ECANCELED: that one is gone, and so nothing was exec'd."""
    EXEC = lib.SPUR_STAGE_EXEC
    """The exec of the job's program itself."""
    RECORDER = lib.SPUR_STAGE_RECORDER
    """The recorder of a run could not do its own work, its lock or its files for instance."""
