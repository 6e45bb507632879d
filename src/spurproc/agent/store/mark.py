"""Numbers that only grow, kept beside a database and outside of it: a database that is behind them is an older copy of itself.

Whoever restores a backup restores a database that has forgotten what was done since. What was done and cleaned up has left no
other trace on the node, and would be done again. Nothing here is synced: that would cost each job the time of a disk, and a power
cut takes the last seconds only, by which no backup is older.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import RecordInvalid, RecordTooNew
from spurproc.proto.codec import Record, decode, encode, version_of

__all__ = ["Mark", "MarkFile"]

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE_FILE = 0o600
_SIZE_BYTES = 256


class Mark(Record, frozen=True, kw_only=True):
    """As far as it went. `reports`: of how many attempts the report was taken, after which nothing else tells of them.

    `place` and `job_id`: the last in the queue, and the highest, of the jobs that these were of.
    """

    reports: int = 0
    place: int = 0
    job_id: int = 0

    def raised_to(self, other: Mark) -> Mark:
        """Of each number the higher one."""
        return Mark(
            reports=max(self.reports, other.reports), place=max(self.place, other.place), job_id=max(self.job_id, other.job_id)
        )


class MarkFile:
    """A mark in a folder that is held. Owns its descriptor; one writer, which is whoever owns the folder."""

    def __init__(self, fd: int, mark: Mark, damage: str) -> None:
        """Takes `fd`. See `open`."""
        self._fd = fd
        self.mark = mark
        self.damage = damage
        """Why the one that stood there could not be read; empty: it could. It then tells nothing of a database."""

    @classmethod
    def open(cls, folder: PrivateFolder, name: str) -> Self:
        """The mark of that name, made if there is none. Raises SystemCallError, RecordTooNew. Does not block."""
        where = f"{folder.path}/{name}"
        with named_errors("open", where):
            fd = os.open(name, _FLAGS, _PRIVATE_FILE, dir_fd=folder.fileno())
        try:
            with named_errors("read", where):
                content = os.pread(fd, _SIZE_BYTES, 0).strip()
            return cls(fd, *_told(content, where))
        except BaseException:
            os.close(fd)
            raise

    def raise_to(self, mark: Mark) -> None:
        """Write what is higher. One write of one length: a kill leaves the old content or the new. Raises SystemCallError."""
        raised = self.mark.raised_to(mark)
        if raised != self.mark:
            with named_errors("write", "the mark beside a database"):
                os.pwrite(self._fd, encode(raised).ljust(_SIZE_BYTES - 1) + b"\n", 0)
            self.mark = raised

    def close(self) -> None:
        """Let go. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _told(content: bytes, where: str) -> tuple[Mark, str]:
    if not content:
        return Mark(), ""
    try:
        version_of(content, where)
        return decode(content, Mark, where), ""
    except RecordTooNew:
        raise
    except RecordInvalid as error:
        return Mark(), str(error)
