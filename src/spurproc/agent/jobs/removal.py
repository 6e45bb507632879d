"""Removing what a job could write to, or its user still does: nothing outside of it is reached, however it is built."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress

from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import Busy

__all__ = ["remove_below"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_below(folder: PrivateFolder, name: str, *, timeout_s: float = 60.0) -> None:
    """Remove `name` from a folder of ours, with all that is in it. One that is not there is fine. Blocks for the disk.

    Links are removed and never followed. What is mounted in it is an error (EBUSY), and stays. No folder in it is entered by a
    path: each is moved up into the topmost and emptied there, so that no depth is too deep. Each is ours before it is emptied,
    so that whoever still has it open puts nothing into it any more. Raises Busy where somebody still writes there after
    `timeout_s`, SystemCallError and the like. To be called again then.
    """
    deadline = time.monotonic() + timeout_s
    with named_errors("remove", f"{folder.path}/{name}"):
        top_fd = _opened_or_unlinked(folder.fileno(), name)
        if top_fd is None:
            return
        try:
            _make_ours(top_fd)
            while not (_emptied(top_fd) and _removed(folder.fileno(), name)):
                if time.monotonic() > deadline:
                    raise Busy(errno.EBUSY, f"cannot remove {folder.path}/{name}: somebody still writes there")
        finally:
            os.close(top_fd)


def _opened_or_unlinked(folder_fd: int, name: str) -> int | None:
    """The folder, of the same mount as the one that it is in; None where there is none any more."""
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=folder_fd)
        except IsADirectoryError:
            fd = _opened(folder_fd, name)
            try:
                _raise_if_mounted(fd, folder_fd)
            except BaseException:
                os.close(fd)
                raise
            return fd
    return None


def _raise_if_mounted(fd: int, folder_fd: int) -> None:
    if _mount_of(fd) != _mount_of(folder_fd):
        raise OSError(errno.EBUSY, "something is mounted there")


def _mount_of(fd: int) -> bytes:
    """A device number would not do: a bind mount has that of what it shows. Source: proc_pid_fdinfo(5), "mnt_id"."""
    with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        return next(line for line in file if line.startswith(b"mnt_id:"))


def _opened(folder_fd: int, name: str) -> int:
    """A folder that its owner, which may be us, has closed to all is opened up first."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder_fd)
    except PermissionError:
        _open_up(folder_fd, name)
        return os.open(name, _FOLDER, dir_fd=folder_fd)


def _open_up(folder_fd: int, name: str) -> None:
    """Through a descriptor that needs no permission, and that no link leads astray."""
    place_fd = os.open(name, _PLACE, dir_fd=folder_fd)
    try:
        _raise_if_mounted(place_fd, folder_fd)
        os.chmod(f"/proc/self/fd/{place_fd}", 0o700)
    finally:
        os.close(place_fd)


def _make_ours(folder_fd: int) -> None:
    """Its user, who may go on writing, could fill it faster than it is emptied; where we are not root it is ours to open up."""
    with suppress(PermissionError):  # a server that takes root for nobody
        os.fchown(folder_fd, os.geteuid(), os.getegid())
    os.fchmod(folder_fd, 0o700)


def _emptied(top_fd: int) -> bool:
    """One pass; whether there was nothing."""
    empty = True
    for name in _names(top_fd):
        empty = False
        with suppress(FileNotFoundError):  # its user was quicker
            _remove(top_fd, name)
    return empty


def _removed(folder_fd: int, name: str) -> bool:
    """False where something has appeared in it."""
    try:
        os.rmdir(name, dir_fd=folder_fd)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _remove(top_fd: int, name: str) -> None:
    below_fd = _opened_or_unlinked(top_fd, name)
    if below_fd is None:
        return
    try:
        _make_ours(below_fd)
        for child in _names(below_fd):
            with suppress(FileNotFoundError):
                _unlink_or_move(below_fd, child, top_fd)
    finally:
        os.close(below_fd)
    _removed(top_fd, name)  # else the next pass finds it


def _unlink_or_move(below_fd: int, name: str, top_fd: int) -> None:
    try:
        os.unlink(name, dir_fd=below_fd)
    except IsADirectoryError:
        _open_up(below_fd, name)  # it has to be writable to be moved, where we are not root: its ".." changes
        os.rename(name, f".{os.urandom(8).hex()}", src_dir_fd=below_fd, dst_dir_fd=top_fd)


def _names(folder_fd: int) -> Iterator[str]:
    """A few at a time, however many there are."""
    with closing(os.scandir(folder_fd)) as entries:
        for entry in entries:
            yield entry.name
