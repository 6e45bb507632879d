"""Who is in a cgroup and below it, by number, and whether that is us. Numbers are for looking; signals go by pidfd."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Any

from spurproc.core._native import ffi, lib
from spurproc.core.cgroup.folder import folder_inode, kernel_path, process_path, read_text
from spurproc.core.cgroup.walk import walk
from spurproc.core.facilities import Facilities, check_call
from spurproc.core.process.identity import procfs_is_ours
from spurproc.errors import AlreadyGone, NotPermitted, from_errno

__all__ = ["PidList", "caller_inside", "member_pids"]

_FIRST_CAPACITY = 512


class PidList:
    """Room for the numbers of one cgroup.procs or cgroup.threads, kept between reads."""

    __slots__ = ("_capacity", "_count", "pids")

    def __init__(self) -> None:
        self._capacity = _FIRST_CAPACITY
        self._count = ffi.new("size_t *")
        self.pids: Any = ffi.new("int[]", self._capacity)

    def read(self, folder_fd: int, name: bytes) -> int:
        """Fill `pids` from the file, to its end; returns how many, or -errno."""
        while True:
            error = lib.spur_cgroup_pids_read(folder_fd, name, self.pids, self._capacity, self._count)
            if error < 0:
                return int(error)
            if self._count[0] <= self._capacity:
                return int(self._count[0])
            self._capacity = 2 * int(self._count[0])
            self.pids = ffi.new("int[]", self._capacity)

    def read_members(self, folder_fd: int) -> tuple[int, bool]:
        """Read cgroup.procs, or cgroup.threads where the cgroup is threaded: (how many or -errno, whether threads)."""
        count = self.read(folder_fd, b"cgroup.procs")
        if count != -errno.EOPNOTSUPP:
            return count, False
        return self.read(folder_fd, b"cgroup.threads"), True


def _thread_owner(tid: int) -> int:
    """The process of a thread, 0 when it ended: "Tgid" of proc_pid_status(5)."""
    try:
        with open(f"/proc/{tid}/status", "rb") as file:
            return next((int(line[5:]) for line in file if line.startswith(b"Tgid:")), 0)
    except OSError:
        return 0


def member_pids(folder_fd: int) -> frozenset[int]:
    """The processes that live in the cgroup and below; 0 stands for any outside the reader's pid namespace.

    A removed cgroup has none. Raises NotPermitted and the like where a listing is refused.
    """
    pids = PidList()
    found: set[int] = set()
    for fd in walk(folder_fd):
        count, threads = pids.read_members(fd)
        if count in (-errno.ENODEV, -errno.ENOENT):
            continue
        if count < 0:
            raise from_errno(-count, "list", "the members of a cgroup")
        listed: list[int] = list(pids.pids[0:count])
        found.update((_thread_owner(tid) for tid in listed if tid) if threads else listed)
    return frozenset(found)


def caller_inside(folder_fd: int) -> bool:
    """Whether this process, or a thread of it, lives in the cgroup or below it.

    What may not be looked at counts as yes: it is asked before a kill. Raises SystemCallError for want of descriptors.
    """
    return _main_thread_inside(folder_fd) or _thread_inside(folder_fd)


def _main_thread_inside(folder_fd: int) -> bool:
    own_id = _own_cgroup_id()
    if own_id:
        with suppress(NotPermitted):  # a sub-cgroup that we may not enter: the names decide
            return any(folder_inode(fd, "a cgroup") == own_id for fd in walk(folder_fd))
    own_path, path = process_path("self"), kernel_path(folder_fd)
    if own_path is not None and path is not None and not path.startswith("/.."):
        return own_path == path or own_path.startswith(path.rstrip("/") + "/")
    try:  # above our cgroup namespace, where one cgroup has many spellings
        return os.getpid() in member_pids(folder_fd)
    except NotPermitted:
        return True


def _thread_inside(folder_fd: int) -> bool:
    """Whether a thread of ours stands in it without the main thread: only a threaded cgroup can have that (cgroups(7))."""
    try:
        if read_text(folder_fd, "cgroup.type") != b"threaded\n":
            return False
        own = set(map(int, os.listdir("/proc/self/task"))) if procfs_is_ours() else set()
        pids = PidList()
        return not own or any(not own.isdisjoint(_listed_threads(pids, fd)) for fd in walk(folder_fd))
    except AlreadyGone:
        return False
    except NotPermitted:
        return True


def _listed_threads(pids: PidList, folder_fd: int) -> list[int]:
    count = pids.read(folder_fd, b"cgroup.threads")
    if count < 0 and count not in (-errno.ENODEV, -errno.ENOENT):
        raise from_errno(-count, "list", "the threads of a cgroup")
    return list(pids.pids[0 : max(0, count)])


def _own_cgroup_id() -> int:
    """The inode of our own cgroup; 0 where the kernel does not tell (PIDFD_GET_INFO, 6.13)."""
    if not Facilities.current().bits & lib.SPUR_FACILITY_PIDFD_INFO:
        return 0
    pidfd = ffi.new("int *")
    facts: Any = ffi.new("spur_pidfd_facts_t *")
    check_call(lib.spur_pidfd_open(os.getpid(), pidfd), "open", "this process")
    try:
        check_call(lib.spur_pidfd_info(pidfd[0], facts), "ask", "this process for its cgroup")
    finally:
        os.close(pidfd[0])
    return int(facts.cgroup_id)
