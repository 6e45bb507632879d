"""How far a program came before it started or did not."""

from __future__ import annotations

import enum

from spurproc.core._native import lib

__all__ = ["SpawnStage"]


class SpawnStage(enum.IntEnum):
    """The steps from clone to exec, in the order in which they are taken. The numbers are the C core's (csrc/plan.h)."""

    NONE = lib.SPUR_STAGE_NONE
    """No code of the child ran."""
    CLONE = lib.SPUR_STAGE_CLONE
    CHILD = lib.SPUR_STAGE_CHILD
    SIGNALS = lib.SPUR_STAGE_SIGNALS
    SESSION = lib.SPUR_STAGE_SESSION
    DESCRIPTORS = lib.SPUR_STAGE_DESCRIPTORS
    PROGRAM = lib.SPUR_STAGE_PROGRAM
    """The exec of spurproc-exec, which takes the steps below."""
    PLAN = lib.SPUR_STAGE_PLAN
    CGROUP = lib.SPUR_STAGE_CGROUP
    OOM_SCORE_ADJ = lib.SPUR_STAGE_OOM_SCORE_ADJ
    LIMITS = lib.SPUR_STAGE_LIMITS
    AFFINITY = lib.SPUR_STAGE_AFFINITY
    UMASK = lib.SPUR_STAGE_UMASK
    GROUPS = lib.SPUR_STAGE_GROUPS
    GID = lib.SPUR_STAGE_GID
    UID = lib.SPUR_STAGE_UID
    CWD = lib.SPUR_STAGE_CWD
    STDIN = lib.SPUR_STAGE_STDIN
    STDOUT = lib.SPUR_STAGE_STDOUT
    STDERR = lib.SPUR_STAGE_STDERR
    NO_NEW_PRIVS = lib.SPUR_STAGE_NO_NEW_PRIVS
    GATE = lib.SPUR_STAGE_GATE
    EXEC = lib.SPUR_STAGE_EXEC
    """The exec of the job's program itself."""
    RECORDER = lib.SPUR_STAGE_RECORDER
