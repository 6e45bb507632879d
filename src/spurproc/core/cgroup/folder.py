"""Folders of the cgroup v2 file system, held by descriptor: open, list, walk, read, write.

Source: admin-guide/cgroup-v2.rst. Functions borrow the descriptors that they are given; `open_*` returns one that the caller
owns.
"""

from __future__ import annotations

import errno
import os

from spurproc.core._native import check, ffi, lib
from spurproc.core.mountinfo import read_mountinfo
from spurproc.errors import NotCgroup2, from_errno

__all__ = [
    "child_names",
    "folder_inode",
    "has_children",
    "kernel_path",
    "open_child",
    "open_folder",
    "process_path",
    "read_text",
    "write_text",
]

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def folder_inode(folder_fd: int, noun: str) -> int:
    """The inode of a cgroup folder, which is the cgroup's id. Raises NotCgroup2 for any other folder."""
    inode = ffi.new("uint64_t *")
    error = lib.spur_cgroup_inode(folder_fd, inode)
    if error == -errno.EMEDIUMTYPE:
        raise NotCgroup2(f"cannot use {noun}: it does not lie on a cgroup2 file system")
    check(error, "use", noun)
    return int(inode[0])


def open_folder(path: str, *, dir_fd: int | None = None) -> int:
    """Open a cgroup folder, symlinks refused in its last part. Raises NotCgroup2, AlreadyGone, NotPermitted."""
    try:
        folder_fd = os.open(path, _OPEN_FOLDER, dir_fd=dir_fd)
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "open", f"cgroup {path!r}") from None
    try:
        folder_inode(folder_fd, f"cgroup {path!r}")
    except BaseException:
        os.close(folder_fd)
        raise
    return folder_fd


def read_text(folder_fd: int, name: str, *, limit: int = 65536) -> bytes:
    """The content of a control file. Raises AlreadyGone, NotPermitted and the like, by errno."""
    try:
        file_fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder_fd)
        try:
            return os.read(file_fd, limit)
        finally:
            os.close(file_fd)
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "read", name) from None


def write_text(folder_fd: int, name: str, text: bytes) -> None:
    """Write one value to a control file; nothing is ever created. Raises by errno."""
    try:
        file_fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder_fd)
        try:
            os.write(file_fd, text)
        finally:
            os.close(file_fd)
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "write", name) from None


def child_names(folder_fd: int) -> list[str]:
    """Names of the sub-cgroups; none when the cgroup was removed. Control files are files, so folders are the children."""
    try:
        with os.scandir(folder_fd) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return []
        raise from_errno(error.errno or errno.EIO, "list", "a cgroup's children") from None


def has_children(folder_fd: int) -> bool:
    """Whether there may be sub-cgroups: cgroup.stat, "nr_descendants" (4.14). Cheaper than a listing of the folder."""
    try:
        return b"nr_descendants 0\n" not in read_text(folder_fd, "cgroup.stat")
    except OSError:
        return True


def open_child(folder_fd: int, name: str) -> int | None:
    """A sub-cgroup, to be closed by the caller; None when it went away meanwhile."""
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return None
        raise from_errno(error.errno or errno.EIO, "open", f"sub-cgroup {name!r}") from None


def kernel_path(folder_fd: int) -> str | None:
    """The cgroup as `/proc/PID/cgroup` spells it for this reader; None when that cannot be told.

    Source: the mount id in `/proc/self/fdinfo/FD` (proc_pid_fdinfo(5), 3.15) names the mount through which it was opened.
    """
    try:
        path = os.readlink(f"/proc/self/fd/{folder_fd}")
        # As bytes: a codec is imported at its first use, which may not be possible any more, or not as this user.
        with open(f"/proc/self/fdinfo/{folder_fd}", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file if b":" in line)
        mount_id = int(fields[b"mnt_id"])
        mount = next(mount for mount in read_mountinfo() if mount.mount_id == mount_id)
    except (OSError, KeyError, ValueError, StopIteration):
        return None
    return mount.path_inside(path)


def process_path(process: int | str) -> str | None:
    """The cgroup v2 of a process, by its number or "self", as `/proc/PID/cgroup` spells it; None when that cannot be read."""
    try:
        with open(f"/proc/{process}/cgroup", "rb") as file:
            return next((os.fsdecode(line[3:].rstrip(b"\n")) for line in file if line.startswith(b"0::")), None)
    except OSError:
        return None
