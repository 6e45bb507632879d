"""A cgroup and all below it, one after the other.

A job decides how deep that goes: nothing here recurses, and few descriptors are held.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from spurproc.core.cgroup.folder import child_names, has_children, open_child
from spurproc.errors import NotPermitted, from_errno

__all__ = ["Levels", "walk"]

_HELD = 16


class Levels:
    """The way down from a borrowed folder: on each level the names that are still to be visited.

    Only the deepest descriptors are held. A higher one is opened again as ".." of the level below, which cannot be another: a
    cgroup never moves, and one that was removed still knows what it was in.
    """

    __slots__ = ("_levels",)

    def __init__(self, folder_fd: int, names: list[str]) -> None:
        self._levels = [(folder_fd, names)]

    @property
    def here(self) -> tuple[int, list[str]]:
        """The deepest level: its descriptor, valid until `up`, and its names."""
        return self._levels[-1]

    def down(self, fd: int, names: list[str]) -> None:
        """Enter `fd`, which is taken."""
        self._levels.append((fd, names))
        place = len(self._levels) - 1 - _HELD
        if place > 0:
            higher_fd, names = self._levels[place]
            self._levels[place] = (-1, names)
            os.close(higher_fd)

    def up(self) -> bool:
        """Leave the deepest level; false for the first one, which is not left."""
        if len(self._levels) == 1:
            return False
        os.close(self._levels.pop()[0])
        if len(self._levels) > 2 and self._levels[-2][0] < 0:
            self._levels[-2] = (_open_above(self._levels[-1][0]), self._levels[-2][1])
        return True

    def close(self) -> None:
        """Let go of all that is held."""
        for fd, _ in self._levels[1:]:
            if fd >= 0:
                os.close(fd)
        del self._levels[1:]


def walk(folder_fd: int, refused: list[int] | None = None) -> Iterator[int]:
    """The cgroup's descriptor, then those of all below it, each valid until the next is asked for.

    A sub-cgroup that may not be entered raises NotPermitted; with `refused`, its errno is added there, and the rest is walked.
    """
    yield folder_fd
    levels = Levels(folder_fd, _names_below(folder_fd, refused))
    try:
        while True:
            here_fd, names = levels.here
            if names:
                child_fd = _enter(here_fd, names.pop(), refused)
                if child_fd is not None:
                    levels.down(child_fd, [])
                    yield child_fd
                    levels.here[1].extend(_names_below(child_fd, refused))
            elif not levels.up():
                return
    finally:
        levels.close()


def _enter(folder_fd: int, name: str, refused: list[int] | None) -> int | None:
    try:
        return open_child(folder_fd, name)
    except NotPermitted as error:
        if refused is None:
            raise
        refused.append(error.errno or errno.EACCES)
        return None


def _names_below(folder_fd: int, refused: list[int] | None) -> list[str]:
    try:
        return child_names(folder_fd) if has_children(folder_fd) else []
    except NotPermitted as error:
        if refused is None:
            raise
        refused.append(error.errno or errno.EACCES)
        return []


def _open_above(folder_fd: int) -> int:
    try:
        return os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "open", "the cgroup above") from None
