"""The address at which the agent is reached: under its name in one act, whatever socket stood there; removed if it is ours."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from typing import Self

from spurproc.core.durable.private_folder import named_errors
from spurproc.errors import SystemCallError

__all__ = ["Address"]

_BACKLOG = 256
_EVERYBODY = 0o666
"""The kernel says who asks; the folder says who may reach it."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Address:
    """A socket that listens under a name in a folder. Owns both, until `take_listener`."""

    def __init__(self, folder_fd: int, name: str, listener: socket.socket) -> None:
        """Takes both. See `listen`."""
        self._folder_fd = folder_fd
        self._name = name
        self._listener = listener
        facts = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        self._identity = (facts.st_dev, facts.st_ino)

    @classmethod
    def listen(cls, folder_fd: int, name: str) -> Self:
        """Listen in a folder that is held, however long its path. Raises SystemCallError; in a removed folder, AlreadyGone."""
        own = os.open(".", _FOLDER, dir_fd=folder_fd)
        try:
            with named_errors("listen at", repr(name)):
                return cls(own, name, _listener(own, name))
        except BaseException:
            os.close(own)
            raise

    @classmethod
    def listen_at(cls, path: str) -> Self:
        """The same for an absolute path. Who may write to the folder can put another address there: choose it well."""
        with named_errors("listen at", repr(path)):
            folder_fd = os.open(os.path.dirname(path), _FOLDER)
            try:
                return cls.listen(folder_fd, os.path.basename(path))
            finally:
                os.close(folder_fd)

    @property
    def listener(self) -> socket.socket:
        """Borrowed. Does not block."""
        return self._listener

    def close(self) -> None:
        """Listen no more, and remove the name if what stands there is this one still. May be called twice."""
        if self._folder_fd < 0:
            return
        self._listener.close()
        with suppress(OSError):
            facts = os.stat(self._name, dir_fd=self._folder_fd, follow_symlinks=False)
            if (facts.st_dev, facts.st_ino) == self._identity and stat.S_ISSOCK(facts.st_mode):
                os.unlink(self._name, dir_fd=self._folder_fd)
        os.close(self._folder_fd)
        self._folder_fd = -1


def _listener(folder_fd: int, name: str) -> socket.socket:
    temporary = f".{name}.{os.urandom(4).hex()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        listener.bind(f"/proc/self/fd/{folder_fd}/{temporary}")
        _check_replaceable(folder_fd, name)
        os.chmod(temporary, _EVERYBODY, dir_fd=folder_fd)
        listener.listen(_BACKLOG)
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        listener.close()
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder_fd)
        raise
    return listener


def _check_replaceable(folder_fd: int, name: str) -> None:
    """A path that was mistyped may be somebody's file."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
            path = f"{os.readlink(f'/proc/self/fd/{folder_fd}')}/{name}"
            raise SystemCallError(errno.EEXIST, f"cannot listen at {path!r}: what stands there is no socket")
