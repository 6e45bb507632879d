"""Row 13 of the protocol: a step folder goes out of sight under a name of its own, and is deleted only then."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, NotCgroup2
from spurproc.proto.owed import is_over
from spurproc.proto.step_folder import OLD_PREFIX, StateFolder, StepFolder

__all__ = ["delete_folder", "remove_cgroups", "remove_under_lock", "retire_folder", "why_not_over"]

_LOCK_NAME = "lock"
_CONCLUDED_WITHIN_S = 1.0
"""A host looks at a step once its supervisor has left."""
_SETTLE_S = 0.5  # the kernel may say EBUSY for a few ms after the last process is gone
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def why_not_over(step: StepFolder) -> str:
    """Why it may not be removed yet; empty for one of which nothing is owed, and whose end is known where it has to be."""
    launch, history = step.launch(), step.history()
    if not is_over(launch, history):
        return "it is not over"
    return "it is not acknowledged" if history.acknowledged is None else ""


def remove_under_lock(state: StateFolder, step: StepFolder, why_kept: Callable[[StepFolder], str] = why_not_over) -> str:
    """Remove it with what is left of its cgroups, if it may go even then. Why not; empty where it is gone."""
    lock = FolderLock.take_within(step.folder, _CONCLUDED_WITHIN_S)
    if lock is None:
        return "its lock is held: its supervisor is there"
    with lock:
        if not step.folder.is_named():
            raise AlreadyGone(errno.ESTALE, f"the folder {step.folder.path!r} was removed")
        reason = why_kept(step)
        if not reason:
            remove_cgroups(step)
            retire_folder(state, step)
    return reason


def retire_folder(state: StateFolder, step: StepFolder, *, durable: bool = True) -> None:
    """For the holder of its lock: its name is free from now on, and all of it is deleted.

    A crash in between leaves a `.old-...`, which is swept. `durable`: a power cut does not bring its name back, half emptied.
    Raises SystemCallError and the like.
    """
    folder, fd = step.folder, state.runtime.fileno()
    old = f"{OLD_PREFIX}{step.runtime_id}-{os.urandom(4).hex()}"
    with named_errors("retire", f"the folder {folder.path!r}"):
        os.rename(os.path.basename(folder.path), old, src_dir_fd=fd, dst_dir_fd=fd)
    folder.path = f"{state.runtime.path}/{old}"
    if durable:
        folder.sync_above()
    delete_folder(folder)


def delete_folder(folder: PrivateFolder) -> None:
    """All that is in it, its lock last, and itself. Links are deleted, never followed; what is mounted there is an error.

    A folder in it is emptied by moving what it holds up: a job may have made them as deep as it likes.
    """
    with named_errors("delete", f"the folder {folder.path!r}"):
        while names := [name for name in os.listdir(folder.fileno()) if name != _LOCK_NAME]:
            for name in names:
                _delete(folder.fileno(), name)
    folder.discard_file(_LOCK_NAME)
    folder.remove()


def _delete(folder_fd: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder_fd)
    except IsADirectoryError:
        _delete_below(folder_fd, name)


def _delete_below(folder_fd: int, name: str) -> None:
    below_fd = os.open(name, _FOLDER, dir_fd=folder_fd)
    try:
        for child in os.listdir(below_fd):
            if stat.S_ISDIR(os.stat(child, dir_fd=below_fd, follow_symlinks=False).st_mode):
                os.rename(child, f".{os.urandom(8).hex()}", src_dir_fd=below_fd, dst_dir_fd=folder_fd)
            else:
                os.unlink(child, dir_fd=below_fd)
    finally:
        os.close(below_fd)
    os.rmdir(name, dir_fd=folder_fd)


def remove_cgroups(step: StepFolder) -> None:
    """What its supervisors have left of them, its own and those of its hooks. Raises Busy where something lives in one."""
    descriptor = step.descriptor()
    records = [None if descriptor is None else descriptor.cgroup]
    records += [begun.cgroup for begun in step.history().hooks_begun.values()]
    for record in records:
        if record is not None and record.boot_id == read_boot_id():
            with suppress(AlreadyGone, NotCgroup2), Cgroup.open(record.path, record.inode) as cgroup:
                cgroup.remove(_SETTLE_S)
