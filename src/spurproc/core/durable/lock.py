"""The lock of a private folder: whether anybody may still write there."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import Busy

__all__ = ["FolderLock"]

_LOCK = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_FILE = 0o600
_HELD_MS = 10


def _check_name(folder: PrivateFolder, fd: int) -> None:
    """The last holder may have removed the file after it was opened: a lock on that excludes nobody."""
    here, there = os.fstat(fd), os.stat("lock", dir_fd=folder.fileno(), follow_symlinks=False)
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        raise FileNotFoundError(errno.ENOENT, "it was removed")


class FolderLock:
    """The lock on `<folder>/lock`: who holds it for itself may conclude that nobody else writes there.

    A launcher and its recorder share it, one after the other and without a gap: only one of them writes at a time.
    flock(2) on an open file description of our own, close-on-exec; never fcntl locks, which any close of the file in this process
    would free. Copies of the descriptor hold it too: those passed on, which LOCK_UN would free, and that of a child which
    another thread clones meanwhile, until its exec, which only LOCK_UN frees. So who lets go says which: `close`, `hand_over`.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, folder: PrivateFolder, *, create: bool = False) -> Self | None:
        """Take the lock for oneself if nobody holds it, else None. Does not block.

        `create`: make the file if there is none. Raises AlreadyGone where there is none, or it was removed meanwhile.
        """
        with named_errors("lock", f"the folder {folder.path!r}"):
            fd = os.open("lock", _LOCK | (os.O_CREAT if create else 0), _PRIVATE_FILE, dir_fd=folder.fileno())
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _check_name(folder, fd)
            except BlockingIOError:
                os.close(fd)
                return None
            except BaseException:
                os.close(fd)
                raise
        return cls(fd)

    @classmethod
    def take_within(cls, folder: PrivateFolder, timeout_s: float, *, create: bool = False) -> Self | None:
        """As `take`, for at most `timeout_s`: a reader holds it for the moment of a conclusion. None if it is still held then."""
        deadline = time.monotonic() + timeout_s
        while (lock := cls.take(folder, create=create)) is None and time.monotonic() < deadline:
            select.poll().poll(_HELD_MS)
        return lock

    def share(self) -> None:
        """Turn it into a shared lock: the recorder takes one too. Raises Busy, and the lock is lost, if another was quicker."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(errno.EBUSY, "cannot share the lock of a folder: another has taken it") from None

    def fileno(self) -> int:
        """The descriptor; borrowed."""
        return self._fd

    def close(self) -> None:
        """Let go: it is free at once, whoever has a copy. May be called twice, and after `hand_over`."""
        if self._fd >= 0:
            with suppress(OSError):  # a file system may refuse it; then the lock is free with the last copy
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.hand_over()

    def hand_over(self) -> None:
        """Close this descriptor alone: who was given a copy holds the lock from now on."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
