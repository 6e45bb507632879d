"""A file that a job writes, and can do anything to: opened without following it anywhere, and without ever waiting for it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection

from spurproc.errors import NotPermitted, from_errno

__all__ = ["JobFile"]

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_LINKS_MOST = 40
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class JobFile:
    """Owns its descriptor, and that of the folder in which it stands."""

    def __init__(self, path: bytes, owners: Collection[int]) -> None:
        """Open it for reading. It has to be a plain file of one of `owners`, with one name.

        Links on the way are followed where root or the caller made them, and refused where anybody else did. What stands there is
        looked at before it is opened: to open a FIFO or a device can block, or do something. Raises AlreadyGone where there is
        none, NotPermitted with the reason, and Busy where a lease is held on it. fcntl(2)
        """
        self.path = os.fsdecode(path)
        self.folder_fd = self.fd = -1
        try:
            self.folder_fd = self._open_folder(path)
            self.fd = self._open(os.path.basename(path), owners)
        except OSError as error:
            self.close()
            if isinstance(error, NotPermitted):
                raise
            raise from_errno(error.errno or errno.EIO, "read", repr(self.path)) from None

    def _open_folder(self, path: bytes) -> int:
        parts = os.path.dirname(path).split(b"/")[::-1]
        links = 0
        fd = os.open("/", _STEP)
        try:
            while parts:
                part = parts.pop()
                if part in (b"", b"."):
                    continue
                below = os.open(part, _STEP, dir_fd=fd)
                facts = os.fstat(below)
                if not stat.S_ISLNK(facts.st_mode):
                    os.close(fd)
                    fd = below
                    continue
                try:
                    target = os.readlink(b"", dir_fd=below)
                finally:
                    os.close(below)
                links += 1
                self._check_link(part, facts, links)
                if target.startswith(b"/"):
                    os.close(fd)
                    fd = os.open("/", _STEP)
                parts.extend(target.split(b"/")[::-1])
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _check_link(self, part: bytes, facts: os.stat_result, links: int) -> None:
        if facts.st_uid not in (0, os.geteuid()):
            raise self._distrust(f"a symbolic link of user {facts.st_uid} stands on the way, {os.fsdecode(part)!r}")
        if links > _LINKS_MOST:
            raise self._distrust(f"more than {_LINKS_MOST} symbolic links stand on the way")

    def _open(self, name: bytes, owners: Collection[int]) -> int:
        held = os.open(name, _STEP, dir_fd=self.folder_fd)
        try:
            facts = os.fstat(held)
            for is_one, what in _KINDS:
                if is_one(facts.st_mode):
                    raise self._distrust(f"it is {what}")
            if facts.st_uid not in owners:
                raise self._distrust(f"it belongs to user {facts.st_uid}")
            if facts.st_nlink > 1:
                raise self._distrust(f"it has {facts.st_nlink} names")
            return os.open(f"/proc/self/fd/{held}", _READ)
        finally:
            os.close(held)

    def _distrust(self, reason: str) -> NotPermitted:
        return NotPermitted(errno.EPERM, f"cannot trust {self.path!r}: {reason}")

    def read(self, position: int, most_bytes: int) -> bytes:
        """What stands there by now; empty at its end."""
        try:
            return os.pread(self.fd, most_bytes, position)
        except OSError as error:
            raise from_errno(error.errno or errno.EIO, "read", repr(self.path)) from None

    def size_bytes(self) -> int:
        """How much there is by now."""
        return os.fstat(self.fd).st_size

    def removed(self) -> bool:
        """Whether no name leads to it any more."""
        return os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        """Let go. May be called twice."""
        for fd in (self.fd, self.folder_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.folder_fd = -1
