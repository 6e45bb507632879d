"""The binary plan of csrc/plan.h, packed: one header, room for tables, arrays, then every string with its NUL."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from spurproc.core._native import lib
from spurproc.errors import InvalidArgument

__all__ = ["HEADER", "HEADER_FIELDS", "PlanFields", "RecorderPart", "pack_plan"]

HEADER = struct.Struct("=IIQ IIIiii Q IIIi 3i 7I iiIi32s")
HEADER_FIELDS = (
    *("magic", "version", "size", "mode", "flags", "facilities", "channel_fd", "gate_fd", "cgroup_fd", "cgroup_inode"),
    *("uid", "gid", "umask", "oom_score_adj", "stdio_fd", "argv_count", "envp_count", "candidates_count"),
    *("limits_count", "affinity_bytes", "groups_count", "pass_fds_count", "recorder"),
)
"""In the order of the struct; a test holds both to the compiler's offsets."""

_PLACE = bytes(8)
"""Room for a pointer, filled by the reader."""
_HAS_UMASK, _HAS_OOM_SCORE_ADJ = lib.SPUR_PLAN_HAS_UMASK, lib.SPUR_PLAN_HAS_OOM_SCORE_ADJ
_HAS_GROUPS, _HAS_GID, _HAS_UID = lib.SPUR_PLAN_HAS_GROUPS, lib.SPUR_PLAN_HAS_GID, lib.SPUR_PLAN_HAS_UID
_NO_NEW_PRIVS, _HAS_CWD = lib.SPUR_PLAN_NO_NEW_PRIVS, lib.SPUR_PLAN_HAS_CWD
_MAGIC, _VERSION = lib.SPUR_PLAN_MAGIC, lib.SPUR_PLAN_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderPart:
    """What only a recorder reads. `nonce` is 32 hexadecimal digits; `containment` a SPUR_CONTAINMENT_ value.

    `home_fd` is the folder of the recorder's own cgroup, -1 for none.
    """

    folder_fd: int
    lock_fd: int
    containment: int
    nonce: bytes
    home_fd: int = -1


_NO_CHANNEL = -1
"""The core makes one, where a program is to tell how far it came."""
_NO_RECORDER = RecorderPart(folder_fd=-1, lock_fd=-1, containment=0, nonce=b"")


@dataclass(slots=True, kw_only=True, eq=False)
class PlanFields:
    """A plan with nothing left to look up: bytes and numbers. Descriptors are those of the process that will read it.

    Not frozen: made once a spawn, and a frozen dataclass of this size takes three times as long to make.
    """

    argv: Sequence[bytes]
    envp: Sequence[bytes]
    candidates: Sequence[bytes]
    mode: int
    facilities: int
    stdio_fd: tuple[int, int, int]
    stdio_path: tuple[bytes | None, bytes | None, bytes | None] = (None, None, None)
    gate_fd: int = -1
    cgroup_fd: int = -1
    cgroup_inode: int = 0
    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] | None = None
    umask: int | None = None
    oom_score_adj: int | None = None
    no_new_privs: bool = False
    cwd: bytes | None = None
    limits: Sequence[tuple[int, int, int]] = ()
    affinity: bytes = b""
    pass_fds: Sequence[int] = ()
    recorder: RecorderPart | None = None

    @property
    def flags(self) -> int:
        """SPUR_PLAN_ bits: which optional numbers are there."""
        return (
            (self.umask is not None) * _HAS_UMASK
            | (self.oom_score_adj is not None) * _HAS_OOM_SCORE_ADJ
            | (self.groups is not None) * _HAS_GROUPS
            | (self.gid is not None) * _HAS_GID
            | (self.uid is not None) * _HAS_UID
            | self.no_new_privs * _NO_NEW_PRIVS
            | (self.cwd is not None) * _HAS_CWD
        )


def pack_plan(fields: PlanFields) -> bytearray:
    """`fields` in the layout of csrc/plan.h, where the core may write. Raises InvalidArgument for a string that holds a NUL."""
    argv, envp, candidates, limits = fields.argv, fields.envp, fields.candidates, fields.limits
    groups, pass_fds, recorder = fields.groups or (), fields.pass_fds, fields.recorder or _NO_RECORDER
    strings = [*argv, *envp, *candidates, *[path or b"" for path in fields.stdio_path], fields.cwd or b"", b""]
    blob = b"\0".join(strings)
    if blob.count(0) != len(strings) - 1:
        raise InvalidArgument(f"{_holder_of_nul(fields)}: a string holds a NUL")
    tail = b"".join(
        (
            _PLACE * (len(argv) + len(envp) + len(candidates) + 3),
            *[struct.pack("=3Q", *limit) for limit in limits],
            fields.affinity,
            struct.pack(f"={len(groups)}I{len(pass_fds)}i", *groups, *pass_fds),
            blob,
        )
    )
    packed = bytearray(
        HEADER.pack(
            *(_MAGIC, _VERSION, HEADER.size + len(tail)),
            *(fields.mode, fields.flags, fields.facilities, _NO_CHANNEL, fields.gate_fd, fields.cgroup_fd, fields.cgroup_inode),
            *(fields.uid or 0, fields.gid or 0, fields.umask or 0, fields.oom_score_adj or 0),
            *(*fields.stdio_fd, len(argv), len(envp), len(candidates)),
            *(len(limits), len(fields.affinity), len(groups), len(pass_fds)),
            *(recorder.folder_fd, recorder.lock_fd, recorder.containment, recorder.home_fd, recorder.nonce),
        )
    )
    packed += tail
    return packed


def _holder_of_nul(fields: PlanFields) -> str:
    for name, strings in (("argv", fields.argv), ("env", fields.envp), ("cwd", (fields.cwd,))):
        if any(text is not None and b"\0" in text for text in strings):
            return name
    for name, path in zip(("stdin", "stdout", "stderr"), fields.stdio_path, strict=True):
        if path is not None and b"\0" in path:
            return name
    return "argv"
