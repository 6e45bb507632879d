"""The liveness of many at once."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Protocol

from spurproc.core._native import check, ffi, lib
from spurproc.core.identity import reader
from spurproc.core.observation import LIVENESS_OF_CODE, Liveness
from spurproc.core.pidfd import SUBJECT

__all__ = ["Subject", "liveness_many"]


class Subject(Protocol):
    """What can be asked about: a ProcessIdentity, a Pidfd, a Cgroup, a CgroupRecord."""

    @property
    def packed(self) -> bytes:
        """A `spur_subject_t`."""
        ...


_PACKED = attrgetter("packed")


def liveness_many(items: Iterable[Subject]) -> list[Liveness]:
    """The liveness of each item, in order; one call into the C core for all of them. Does not block.

    A closed Pidfd is UNKNOWN here, where its own `liveness()` raises.
    """
    packed = b"".join(map(_PACKED, items))
    count = len(packed) // SUBJECT.size
    codes = ffi.new("unsigned char[]", count)
    check(lib.spur_liveness_many(reader(), packed, count, codes), "ask about", f"{count} subjects")
    return list(map(LIVENESS_OF_CODE.__getitem__, ffi.buffer(codes)[:]))
