"""One signal to every member of one cgroup and its sub-cgroups: passes over the listed pids until one finds nobody new."""

from __future__ import annotations

import errno
import os
import signal as _signal
from dataclasses import dataclass
from typing import Any

from spurproc.core._native import check, ffi, lib
from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.folder import folder_inode, kernel_path
from spurproc.core.cgroup.kill import DYING_S, await_dying, await_empty, kill_at_once
from spurproc.core.cgroup.pids import PidList
from spurproc.core.cgroup.signal_report import Refusal, RefusalReason
from spurproc.core.cgroup.walk import walk
from spurproc.core.process.identity import procfs_is_ours
from spurproc.errors import InvalidArgument, SystemCallError, Unsupported

__all__ = ["MAX_PASSES", "CgroupSweep", "SeenTable", "Swept", "check_signal"]

MAX_PASSES = 64
QUIET_PASSES = 3
_REASONS = {
    lib.SPUR_REFUSAL_NOT_PERMITTED: RefusalReason.NOT_PERMITTED,
    lib.SPUR_REFUSAL_FOREIGN: RefusalReason.FOREIGN,
    lib.SPUR_REFUSAL_INIT: RefusalReason.INIT,
    lib.SPUR_REFUSAL_CALLER: RefusalReason.CALLER,
    lib.SPUR_REFUSAL_UNCONFIRMED: RefusalReason.UNCONFIRMED,
    lib.SPUR_REFUSAL_ERROR: RefusalReason.ERROR,
    lib.SPUR_REFUSAL_UNSUPPORTED: RefusalReason.UNSUPPORTED,
}
_REMOVED = (-errno.ENODEV, -errno.ENOENT)
_WITHOUT_PROC = lib.SPUR_FACILITY_PIDFD_OPEN | lib.SPUR_FACILITY_PIDFD_INFO | lib.SPUR_FACILITY_PIDFS_INODE


def check_signal(signal: object) -> int:
    """`signal` if the kernel has it (0 only asks). Raises InvalidArgument: a signal is never a pid, nor the other way round."""
    if isinstance(signal, bool) or not isinstance(signal, int) or not 0 <= signal < _signal.NSIG:
        raise InvalidArgument(f"cannot send signal {signal!r}: not between 0 and {_signal.NSIG - 1}")
    return int(signal)


class SeenTable:
    """Who was signalled in one call, by keys that no two processes of a boot share."""

    __slots__ = ("_keys", "facilities", "native")

    def __init__(self, facilities: int) -> None:
        self.facilities = facilities
        self._keys = ffi.new("uint64_t[]", 1024)
        self.native: Any = ffi.new("spur_seen_t *", {"keys": self._keys, "size": 1024, "used": 0})

    def reserve(self, count: int) -> None:
        """Make room for `count` more, with half the slots free."""
        size = int(self.native.size)
        while size < 2 * (int(self.native.used) + count) + 2:
            size *= 2
        if size == self.native.size:
            return
        keys = ffi.new("uint64_t[]", size)
        grown: Any = ffi.new("spur_seen_t *", {"keys": keys, "size": size, "used": 0})
        check(lib.spur_seen_move(self.native, grown), "grow", "the table of signalled members")
        self._keys, self.native = keys, grown

    def key(self, pidfd: int, pid: int) -> int:
        """The key of the process that `pidfd` holds. Raises AlreadyGone."""
        key = ffi.new("uint64_t *")
        check(lib.spur_member_key(pidfd, pid, self.facilities, key), "identify", f"pid {pid}")
        return int(key[0])

    def __contains__(self, key: int) -> bool:
        return bool(lib.spur_seen_has(self.native, key))

    def add(self, key: int) -> None:
        """Remember `key`."""
        self.reserve(1)
        check(lib.spur_seen_add(self.native, key), "remember", "a signalled member")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep found: counts of processes. `unreadable` is the errno of a listing that was refused, else 0."""

    signalled: int
    refused: tuple[Refusal, ...]
    passes: int
    complete: bool
    unreadable: int


class CgroupSweep:
    """A signal on its way to the members below one folder, which is borrowed."""

    def __init__(self, folder_fd: int, signal: int, seen: SeenTable) -> None:
        self._folder_fd = folder_fd
        self._seen = seen
        self._pids = PidList()
        self._path: Any = None
        self._proc_is_ours = procfs_is_ours()
        if not self._proc_is_ours and seen.facilities & _WITHOUT_PROC != _WITHOUT_PROC:
            raise Unsupported("cannot signal a cgroup's members: /proc shows another pid namespace, and the kernel needs it here")
        self._refusals: Any = ffi.new("spur_refusal_t[]", 1)
        self._native: Any = ffi.new(
            "spur_sweep_t *",
            {
                "signal": check_signal(signal),
                "facilities": seen.facilities,
                "refusals": self._refusals,
                "refusals_capacity": 1,
            },
        )
        self._unreadable = 0
        self._cgroups = 0

    def run(self) -> Swept:
        """Pass until a pass finds nobody new, at most MAX_PASSES times.

        A member that moves from a cgroup not yet read to one that was is missed by that pass: where there are several, it takes
        QUIET_PASSES in a row to believe that there is nobody new.

        SIGKILL goes to all at once before, by cgroup.kill: who was listed then and is gone behind it counts as signalled. The
        passes reach what it misses, a process whose main thread has exited. Blocks no longer than they take, and as long as those
        who were killed at once go on dying; where some are left who refuse a pidfd, a while more. At most DYING_S each.
        """
        killed = self._kill()
        quiet = 0 if self._pass() else 1
        passes = 1
        reached = 0 if killed is None else max(0, killed - self._found())
        while quiet < self._quiet_needed() and passes < MAX_PASSES:
            quiet = 0 if self._pass() else quiet + 1
            passes += 1
        if killed is not None and self._native.refused:
            refused = int(self._native.refused)
            await_empty(self._folder_fd, DYING_S)
            self._pass()
            reached += max(0, refused - int(self._native.refused))
        return Swept(
            signalled=int(self._native.signalled) + reached,
            refused=self._refusals_taken(),
            passes=passes,
            complete=quiet >= self._quiet_needed() and not self._unreadable,
            unreadable=self._unreadable,
        )

    def _kill(self) -> int | None:
        if self._native.signal != _signal.SIGKILL or not self._seen.facilities & lib.SPUR_FACILITY_CGROUP_KILL:
            return None
        killed = kill_at_once(self._folder_fd)
        if killed is not None:
            await_dying(self._folder_fd, killed)
        return killed

    def _found(self) -> int:
        """How many the first pass has found alive, there or elsewhere."""
        return int(self._native.signalled) + int(self._native.refused) + int(self._native.moved)

    def _quiet_needed(self) -> int:
        return QUIET_PASSES if self._cgroups > 1 else 1

    def _pass(self) -> bool:
        """Signal everybody listed who has not been; whether somebody new was found, or somebody listed was elsewhere by now."""
        before = int(self._native.signalled)
        self._walk()
        if self._native.pathless and self._path is None and self._proc_is_ours:
            self._path = ffi.new("char[]", os.fsencode(kernel_path(self._folder_fd) or ""))
            self._native.tree_path = self._path if self._path[0] != b"\0" else ffi.NULL
            self._walk()
        return int(self._native.signalled) > before or self._native.moved > 0 or self._overlooked()

    def _overlooked(self) -> bool:
        """Whether somebody lives there although nobody was seen, in this pass or before."""
        native = self._native
        if self._cgroups == 1 or native.signalled or native.known or native.refused or self._unreadable:
            return False
        try:
            events = CgroupEvents(open_events(self._folder_fd))
        except SystemCallError:
            return False
        try:
            return not events.is_empty()
        finally:
            events.close()

    def _walk(self) -> None:
        self._native.refused = self._native.moved = self._native.pathless = 0
        self._cgroups = 0
        shut: list[int] = []  # sub-cgroups that we may not enter
        try:
            for folder_fd in walk(self._folder_fd, shut):
                self._cgroups += 1
                self._signal_listed(folder_fd)
        except SystemCallError as error:  # no descriptors left, say: told, and never taken for the end of the list
            self._unreadable = error.errno or errno.EIO
        if shut:
            self._unreadable = shut[0]

    def _signal_listed(self, folder_fd: int) -> None:
        self._native.threads = 0
        count = self._pids.read(folder_fd, b"cgroup.procs")
        if count == -errno.EOPNOTSUPP and self._proc_is_ours:  # a threaded cgroup lists threads, and /proc knows whose
            self._native.threads = 1
            count = self._pids.read(folder_fd, b"cgroup.threads")
        if count in _REMOVED:
            return
        if count < 0:
            self._unreadable = -count
            return
        self._native.cgroup_id = folder_inode(folder_fd, "a cgroup")
        self._reserve(count)
        self._native.seen = self._seen.native
        check(lib.spur_members_signal(self._native, self._pids.pids, count), "signal", "the members of a cgroup")

    def _reserve(self, count: int) -> None:
        """Room for `count` members more, in case that all are signalled or all refuse."""
        self._seen.reserve(count)
        refused = int(self._native.refused)
        if refused + count <= self._native.refusals_capacity:
            return
        room: Any = ffi.new("spur_refusal_t[]", 2 * (refused + count))
        ffi.memmove(room, self._refusals, refused * ffi.sizeof("spur_refusal_t"))
        self._refusals = self._native.refusals = room
        self._native.refusals_capacity = 2 * (refused + count)

    def _refusals_taken(self) -> tuple[Refusal, ...]:
        entries = self._refusals[0 : int(self._native.refused)]
        return tuple(Refusal(pid=entry.pid, errno=entry.error, reason=_REASONS[entry.reason]) for entry in entries)
