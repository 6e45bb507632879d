"""A fresh cgroup for a step, made so that none stays behind for good when its maker is killed.

Until a record on disk names it, nobody but its maker knows of it. So it is born with the sticky bit, and its maker holds a
shared flock(2) on its folder: an empty one with the bit and without a holder was left by a maker that died, and whoever makes the
next one removes it. Both are provable: the kernel drops a lock when its holder dies, and refuses to remove what is populated.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
from contextlib import suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.folder import child_names, open_folder
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.observation import Liveness
from spurproc.errors import AlreadyGone, SpurprocError, SystemCallError

__all__ = ["keep_step", "make_hook", "make_step"]

_MODE = 0o755
_PAUSES_MS = (1, 1, 2, 4, 8, 16, 32, 64)
_LOOKED_AT = 64  # of thousands of steps, from a random place: a launch stays fast, and what was left still goes soon


def make_step(root: CgroupRoot, name: str) -> Cgroup:
    """A new cgroup under `root.steps`, which lives as long as it is populated or held open here, until `keep_step`.

    Removes some of what killed makers have left. Raises as Cgroup.create. It waits for a sweep that gets in its way, a moment.
    """
    return _make(root.steps, name)


def make_hook(root: CgroupRoot, name: str) -> Cgroup:
    """As `make_step`, under `root.hooks`."""
    return _make(root.hooks, name)


def _make(folder: str, name: str) -> Cgroup:
    with suppress(SpurprocError, OSError):  # not ours, perhaps; what is made now is none the worse for it
        _sweep(folder)
    made = False
    for pause_ms in _PAUSES_MS:
        try:
            cgroup = _make_held(f"{folder}/{name}")
        except SystemCallError as error:
            if error.errno != errno.EEXIST or not made:
                raise
            cgroup = None  # the one that we made before: a sweep has it, and has not removed it yet
        if cgroup is not None:
            return cgroup
        made = True
        _pause(pause_ms)
    raise AlreadyGone(errno.ENOENT, f"cannot make cgroup {name!r}: it is removed each time")


def _pause(ms: int) -> None:
    select.poll().poll(ms)


def _make_held(path: str) -> Cgroup | None:
    """None where a sweep was quicker than our lock: it took the cgroup for one that was left."""
    try:
        cgroup = Cgroup.create(path, mode=_MODE | stat.S_ISVTX)
    except AlreadyGone:
        if not os.path.isdir(os.path.dirname(path)):
            raise
        return None
    try:
        fcntl.flock(cgroup.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.stat(path, follow_symlinks=False).st_ino == cgroup.inode:
            return cgroup
    except OSError:
        pass
    cgroup.close()
    return None


def keep_step(cgroup: Cgroup) -> None:
    """A durable record names it: from now on it stays until that is removed, whoever dies. Raises OSError."""
    os.fchmod(cgroup.fileno(), _MODE)


def _sweep(folder: str) -> None:
    folder_fd = open_folder(folder)
    try:
        names = child_names(folder_fd)
        first = int.from_bytes(os.urandom(4)) % max(1, len(names))
        for name in (names[first:] + names[:first])[:_LOOKED_AT]:
            with suppress(SpurprocError, OSError):  # in use, or gone meanwhile
                if os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode & stat.S_ISVTX:
                    _sweep_one(f"{folder}/{name}")
    finally:
        os.close(folder_fd)


def _sweep_one(path: str) -> None:
    with Cgroup.open(path) as cgroup:
        fcntl.flock(cgroup.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its maker clears the bit under its own lock, so it is final now.
        if os.fstat(cgroup.fileno()).st_mode & stat.S_ISVTX and cgroup.liveness() is Liveness.GONE:
            cgroup.remove(0.0)
