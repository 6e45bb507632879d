"""Removing a cgroup and what is below it: folders only, deepest first, by handle, bounded."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.folder import child_names, folder_inode, open_child
from spurproc.core.cgroup.walk import Levels
from spurproc.errors import AlreadyGone, Busy, from_errno

__all__ = ["remove_cgroup"]

_GONE = (errno.ENOENT, errno.ENODEV)
# The kernel may say EBUSY for a few ms after "populated 0", and nothing tells when that is over.
_SETTLE_S = 0.002


def remove_cgroup(folder_fd: int, path: str, deadline: float) -> None:
    """Remove the cgroup that `folder_fd` holds, by its name in the folder above. Blocks until `deadline`, absolute monotonic.

    Raises Busy when it is still populated then. A removed one is success; another cgroup under the same name is left alone.
    """
    inode = folder_inode(folder_fd, f"cgroup {path!r}")
    name = os.path.basename(path)
    while True:
        _await_empty(folder_fd, deadline)
        _remove_below(folder_fd)
        error = _remove_named(folder_fd, name, inode)
        if error == 0:
            return
        if error != errno.EBUSY:
            raise from_errno(error, "remove", f"cgroup {path!r}")
        if time.monotonic() >= deadline:
            raise Busy(error, f"cannot remove cgroup {path!r}: something still lives in it")
        time.sleep(_SETTLE_S)  # noqa: TID251 - see _SETTLE_S


def _await_empty(folder_fd: int, deadline: float) -> None:
    with suppress(AlreadyGone):
        events = CgroupEvents(open_events(folder_fd))
        try:
            events.wait(events.is_empty, deadline)
        finally:
            events.close()


def _remove_below(folder_fd: int) -> None:
    """One try at everything below, deepest first; what is busy stays for the next round."""
    levels = Levels(folder_fd, child_names(folder_fd))
    try:
        while True:
            here_fd, names = levels.here
            if names and (child_fd := open_child(here_fd, names[-1])) is not None:
                levels.down(child_fd, child_names(child_fd))
            elif names:
                names.pop()
            elif not levels.up():
                return
            else:  # by its name in the one above, now that it has no children
                above_fd, names = levels.here
                with suppress(OSError):
                    os.rmdir(names.pop(), dir_fd=above_fd)
    finally:
        levels.close()


def _remove_named(folder_fd: int, name: str, inode: int) -> int:
    """Remove our own name in the folder above; 0 or the errno. Gone, or no longer ours, is 0."""
    try:
        above_fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError as error:
        return 0 if error.errno in _GONE else error.errno or errno.EIO
    try:
        if os.stat(name, dir_fd=above_fd, follow_symlinks=False).st_ino != inode:
            return 0
        os.rmdir(name, dir_fd=above_fd)
    except OSError as error:
        return 0 if error.errno in _GONE else error.errno or errno.EIO
    finally:
        os.close(above_fd)
    return 0
