"""The binary plan of csrc/plan.h, packed: one header, arrays, tables of offsets, then every string with its NUL."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from spurproc.core._native import lib
from spurproc.errors import InvalidArgument

__all__ = ["HEADER", "HEADER_FIELDS", "PlanFields", "RecorderPart", "pack_plan"]

HEADER = struct.Struct("=IIQ IIIiii Q IIIi 3iI 3QQ 14Q iiIi32s")
HEADER_FIELDS = (
    *("magic", "version", "size", "mode", "flags", "facilities", "channel_fd", "gate_fd", "cgroup_fd", "cgroup_inode"),
    *("uid", "gid", "umask", "oom_score_adj", "stdio_fd", "reserved", "stdio_path", "cwd"),
    *("argv", "envp", "candidates", "groups", "limits", "affinity", "pass_fds", "recorder"),
)
"""In the order of the struct; a test holds both to the compiler's offsets."""

_ALIGNMENT = 8
_HAS_UMASK, _HAS_OOM_SCORE_ADJ = lib.SPUR_PLAN_HAS_UMASK, lib.SPUR_PLAN_HAS_OOM_SCORE_ADJ
_HAS_GROUPS, _HAS_GID, _HAS_UID = lib.SPUR_PLAN_HAS_GROUPS, lib.SPUR_PLAN_HAS_GID, lib.SPUR_PLAN_HAS_UID
_NO_NEW_PRIVS = lib.SPUR_PLAN_NO_NEW_PRIVS


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
    channel_fd: int = -1
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
        )


def pack_plan(fields: PlanFields) -> bytes:
    """`fields` in the layout of csrc/plan.h. Raises InvalidArgument for a string that holds a NUL."""
    tables = (fields.argv, fields.envp, fields.candidates)
    arrays = _arrays(fields)
    at = HEADER.size
    table_spans, array_spans = [], []
    for strings in tables:
        table_spans.append((at, len(strings)))
        at += 8 * (len(strings) + 1)
    for array, count in arrays:
        array_spans.append((at, count))
        at += len(array)
    loose = [text for text in (*fields.stdio_path, fields.cwd) if text is not None]
    strings = [*itertools.chain(*tables), *loose]
    offsets = list(itertools.accumulate([len(text) + 1 for text in strings], initial=at))
    blob = b"\0".join(strings) + b"\0"
    if blob.count(0) != len(strings):
        raise InvalidArgument(f"{_holder_of_nul(fields)}: a string holds a NUL")
    header = _header(fields, offsets, [*table_spans, *array_spans])
    return b"".join((header, *_tables(tables, offsets), *(array for array, _ in arrays), blob))


def _arrays(fields: PlanFields) -> list[tuple[bytes, int]]:
    groups, limits, pass_fds = fields.groups or (), fields.limits, fields.pass_fds
    arrays = (
        (struct.pack(f"={len(groups)}I", *groups) if groups else b"", len(groups)),
        (b"".join([struct.pack("=3Q", *limit) for limit in limits]), len(limits)),
        (fields.affinity, len(fields.affinity)),
        (struct.pack(f"={len(pass_fds)}i", *pass_fds) if pass_fds else b"", len(pass_fds)),
    )
    return [(array + bytes(-len(array) % _ALIGNMENT), count) for array, count in arrays]


def _tables(tables: Sequence[Sequence[bytes]], offsets: Sequence[int]) -> list[bytes]:
    packed, first = [], 0
    for strings in tables:
        last = first + len(strings)
        packed.append(struct.pack(f"={len(strings) + 1}Q", *offsets[first:last], 0))
        first = last
    return packed


def _header(fields: PlanFields, offsets: Sequence[int], spans: Sequence[tuple[int, int]]) -> bytes:
    loose = iter(offsets[sum(count for _, count in spans[:3]) :])
    paths = [next(loose) if path is not None else 0 for path in fields.stdio_path]
    cwd = next(loose) if fields.cwd is not None else 0
    recorder = fields.recorder or _NO_RECORDER
    return HEADER.pack(
        *(lib.SPUR_PLAN_MAGIC, lib.SPUR_PLAN_VERSION, offsets[-1]),
        *(fields.mode, fields.flags, fields.facilities, fields.channel_fd, fields.gate_fd, fields.cgroup_fd, fields.cgroup_inode),
        *(fields.uid or 0, fields.gid or 0, fields.umask or 0, fields.oom_score_adj or 0),
        *(*fields.stdio_fd, 0, *paths, cwd),
        *itertools.chain(*spans),
        *(recorder.folder_fd, recorder.lock_fd, recorder.containment, recorder.home_fd, recorder.nonce),
    )


def _holder_of_nul(fields: PlanFields) -> str:
    for name, strings in (("argv", fields.argv), ("env", fields.envp), ("cwd", (fields.cwd,))):
        if any(text is not None and b"\0" in text for text in strings):
            return name
    for name, path in zip(("stdin", "stdout", "stderr"), fields.stdio_path, strict=True):
        if path is not None and b"\0" in path:
            return name
    return "argv"
