"""A file of lines that only grows: each line is durable before whoever wrote it acts on it.

A crash can leave the last line torn. A reader ignores a torn tail, and the next writer cuts it off; every whole line counts.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from spurproc.core._native import lib
from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import InvalidArgument, RecordInvalid

__all__ = ["JOURNAL_LIMIT_BYTES", "JOURNAL_NAME", "LINE_LIMIT_BYTES", "Journal", "read_journal", "sync_journal"]

JOURNAL_NAME = "journal.jsonl"
LINE_LIMIT_BYTES = 1 << 16
JOURNAL_LIMIT_BYTES = 1 << 24
_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def read_journal(folder: PrivateFolder) -> list[bytes]:
    """Its whole lines, without their newlines. Raises AlreadyGone where there is none, RecordInvalid where it is too long."""
    return _whole(folder.read_file(JOURNAL_NAME, JOURNAL_LIMIT_BYTES), folder)[0]


def sync_journal(folder: PrivateFolder) -> None:
    """Make what was read of it durable: its writer may not have got so far, and what is told is to outlast a power cut."""
    fd = folder.open_file(JOURNAL_NAME)
    try:
        with named_errors("fdatasync", f"{folder.path}/{JOURNAL_NAME}"):
            os.fdatasync(fd)
    finally:
        os.close(fd)


def _whole(content: bytes, folder: PrivateFolder) -> tuple[list[bytes], int]:
    """The lines, and how many bytes they take."""
    end = content.rfind(b"\n") + 1
    lines = content[:end].split(b"\n")[:-1]
    if any(len(line) >= LINE_LIMIT_BYTES for line in lines):
        raise RecordInvalid(f"{folder.path}/{JOURNAL_NAME}", f"a line of more than {LINE_LIMIT_BYTES} bytes")
    return lines, end


class Journal:
    """The journal of a folder, open for appending by the holder of the folder's lock. Owns its descriptor."""

    def __init__(self, folder: PrivateFolder, fd: int, lines: list[bytes], size_bytes: int) -> None:
        """Takes `fd`. See `create` and `open`."""
        self._folder = folder
        self._fd = fd
        self._size_bytes = size_bytes
        self._torn = False
        self.lines = lines
        """What it held when it was opened."""

    @classmethod
    def create(cls, folder: PrivateFolder) -> None:
        """Make an empty one. Not fsynced: it is made beside other files, before the folder is."""
        os.close(folder.create_file(JOURNAL_NAME))

    @classmethod
    def open(cls, folder: PrivateFolder) -> Journal:
        """Open it, cut a torn tail off, and make what was appended before durable: its writer may have died in between.

        Raises AlreadyGone where there is none, RecordInvalid, and what the file system says.
        """
        lines, size_bytes = _whole(folder.read_file(JOURNAL_NAME, JOURNAL_LIMIT_BYTES), folder)
        with named_errors("open", f"{folder.path}/{JOURNAL_NAME}"):
            fd = os.open(JOURNAL_NAME, _APPEND, dir_fd=folder.fileno())
            try:
                if os.fstat(fd).st_size != size_bytes:  # else its time of change would say that something was written
                    os.ftruncate(fd, size_bytes)
                if size_bytes:
                    os.fdatasync(fd)
            except BaseException:
                os.close(fd)
                raise
        return cls(folder, fd, lines, size_bytes)

    def reserve(self, size_bytes: int) -> bool:
        """Make room for that much more, so that a disk that fills up takes no end away; whether there is. fallocate(2)"""
        return lib.spur_file_reserve(self._fd, self._size_bytes, size_bytes) == 0

    def append(self, line: bytes, *, sync: bool = True) -> None:
        """Write one line, whole, and unless `sync` is false make it durable. fdatasync(2)

        Raises what the file system says (ENOSPC, EIO), and then the line is not there: what was written of it is cut off, here or
        by the next writer.
        """
        if b"\n" in line or len(line) >= LINE_LIMIT_BYTES:
            raise InvalidArgument(f"cannot append {line[:80]!r} to a journal: not one line of less than {LINE_LIMIT_BYTES} bytes")
        with named_errors("append to", f"{self._folder.path}/{JOURNAL_NAME}"):
            self._cut_tail()
            self._torn = True
            try:
                _write_whole(self._fd, line + b"\n")
                if sync:
                    os.fdatasync(self._fd)
            except OSError:
                with suppress(OSError):  # then the next one does, before it writes a byte behind it
                    self._cut_tail()
                raise
        self._torn = False
        self._size_bytes += len(line) + 1

    def _cut_tail(self) -> None:
        """What was written of a line that is not there."""
        if self._torn:
            os.ftruncate(self._fd, self._size_bytes)
            self._torn = False

    def close(self) -> None:
        """Let go. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _write_whole(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):  # the rest would not fit either: the disk is full, or a quota
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
