"""The static program `spurproc-exec`: found once, then held open, so that removing the package changes nothing."""

from __future__ import annotations

import errno
import fcntl
import os

from spurproc.errors import Unsupported

__all__ = ["PROGRAM_PATH", "program_fd"]

PROGRAM_PATH = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/bin/spurproc-exec"
"""Where the build puts it: `bin` of the package `spurproc.core`."""

_FIRST_FREE_FD = 3
_held: tuple[int, int, int] | None = None


def program_fd() -> int:
    """The process's own descriptor of the program, >= 3, close-on-exec; borrowed, never to be closed by the caller.

    Opened at the first call. A program that closes descriptors it does not know (a daemoniser) gets it opened anew: number,
    device and inode are compared at each call. Raises Unsupported where the program is missing or out of reach; OSError where
    there is no room for a descriptor.
    """
    global _held  # noqa: PLW0603 - one descriptor a process
    if _held is None or not _is_still(*_held):
        fd = _open()
        status = os.fstat(fd)
        _held = (fd, status.st_dev, status.st_ino)
    return _held[0]


def _is_still(fd: int, device: int, inode: int) -> bool:
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (device, inode)


def _open() -> int:
    # O_PATH is all that execveat(2) needs; raised above 2, where the job's own descriptors go.
    try:
        low = os.open(PROGRAM_PATH, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        reason = "; the package was built without its static program, or is not to be seen from here (chroot)"
        raise Unsupported(
            f"cannot open {PROGRAM_PATH!r}: {error.strerror}{reason if error.errno == errno.ENOENT else ''}"
        ) from None
    try:
        return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
    finally:
        os.close(low)
