"""A cgroup v2 held by its folder: what lives in it, and acts on all of it."""

from __future__ import annotations

import errno
import os
import signal as _signal
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from spurproc.core._native import lib
from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.folder import child_names, folder_inode, kernel_path, open_folder, read_text, write_text
from spurproc.core.cgroup.limits import CgroupLimits, Limit, missing_controller, unavailable_controller
from spurproc.core.cgroup.pids import caller_inside, member_pids
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.cgroup.removal import remove_cgroup
from spurproc.core.cgroup.signal_report import Route, SignalReport
from spurproc.core.cgroup.sweep import CgroupSweep, SeenTable
from spurproc.core.cgroup.walk import walk
from spurproc.core.deadline import checked_seconds, deadline_after
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.pidfd import SUBJECT
from spurproc.errors import AlreadyGone, InvalidArgument, SignalRefused, SystemCallError, Unsupported, WaitTimeout, from_errno

__all__ = ["Cgroup"]

FREEZE_TIMEOUT_S = 5.0


class Cgroup:
    """A cgroup, held by an open folder and known by its inode, which no later cgroup of this boot shares.

    Owns its descriptors: close it, or use it as a context manager. Closing leaves the cgroup itself alone.
    """

    __slots__ = ("_events", "_fd", "events_fd", "inode", "packed", "path")

    packed: bytes
    """The form that `liveness_many` hands to the C core, among others; `events_fd`, -1 without one, among its like."""
    events_fd: int

    def __init__(self, folder_fd: int, path: str) -> None:
        """Takes `folder_fd`, an open cgroup folder, on success. Use `create` or `open`."""
        self.inode = folder_inode(folder_fd, f"cgroup {path!r}")
        self.path = path
        self._fd = folder_fd
        self._events: CgroupEvents | None = None
        self._pack(-1)
        with suppress(SystemCallError):  # the top has no events, and others may be unreadable: told when asked for
            self.events()

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, mode: int = 0o755) -> Cgroup:
        """Make a cgroup; the one above it must exist. Raises NotCgroup2 before anything is made, SystemCallError if it is there.

        `mode` is that of its folder, less the umask. Source: cgroups(7), mkdir(2). Does not block.
        """
        absolute = _absolute(path)
        above_fd = open_folder(os.path.dirname(absolute))
        try:
            os.mkdir(os.path.basename(absolute), mode, dir_fd=above_fd)
            return cls(open_folder(os.path.basename(absolute), dir_fd=above_fd), absolute)
        except SystemCallError:
            raise
        except OSError as error:
            raise from_errno(error.errno or errno.EIO, "create", f"cgroup {absolute!r}") from None
        finally:
            os.close(above_fd)

    @classmethod
    def open(cls, path: str | os.PathLike[str], inode: int | None = None) -> Cgroup:
        """Hold the cgroup at `path`. With `inode`, only that very one: AlreadyGone when another stands there.

        Raises NotCgroup2 for any folder that is not a cgroup of v2. Does not block.
        """
        absolute = _absolute(path)
        folder_fd = open_folder(absolute)
        cgroup = cls(folder_fd, absolute)
        if inode is not None and cgroup.inode != inode:
            cgroup.close()
            raise AlreadyGone(errno.ESTALE, f"cannot open cgroup {absolute!r}: another one has taken its place")
        return cgroup

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cgroup({self.path!r}, inode={self.inode})"

    def fileno(self) -> int:
        """The folder's descriptor, for openat(2) and CLONE_INTO_CGROUP. Raises InvalidArgument once it is closed."""
        if self._fd < 0:
            raise InvalidArgument(f"cannot use cgroup {self.path!r}: it is closed")
        return self._fd

    def close(self) -> None:
        """Let go of the descriptors; may be called twice."""
        if self._events is not None:
            self._events.close()
            self._events = None
        self.events_fd = -1
        self.packed = SUBJECT.pack(lib.SPUR_SUBJECT_CGROUP, -1, 0, 0, 0, 0, b"")  # nothing to ask any more
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def record(self) -> CgroupRecord:
        """What to write down to find this cgroup again, and never another."""
        return CgroupRecord.of_folder(self.fileno(), self.path)

    def kernel_path(self) -> str | None:
        """Its name in `/proc/PID/cgroup` as seen from here; None when that cannot be told."""
        return kernel_path(self.fileno())

    # What lives in it.

    def events(self) -> CgroupEvents:
        """The open `cgroup.events`, kept; borrowed. Raises AlreadyGone for a removed cgroup."""
        if self._events is None:
            self._events = CgroupEvents(open_events(self.fileno()))
            self._pack(self._events.fileno())
        return self._events

    def liveness(self) -> Liveness:
        """ALIVE with a live process in it or below, GONE when empty or removed, else UNKNOWN. A zombie does not count.

        Empty says nothing about a cgroup that nobody has joined yet: that is for who spawned to know. Does not block.
        """
        return self.observe().liveness

    def observe(self) -> Observation:
        """As `liveness`, with the evidence."""
        try:
            populated = self.events().read().populated
        except AlreadyGone:
            return self._observe_missing()
        except SystemCallError as error:
            return Observation(liveness=Liveness.UNKNOWN, evidence="unreadable", detail=str(error))
        if populated:
            return Observation(liveness=Liveness.ALIVE, evidence="cgroup.events", detail=f"{self.path} is populated")
        return Observation(liveness=Liveness.GONE, evidence="cgroup.events", detail=f"{self.path} is empty")

    def _observe_missing(self) -> Observation:
        # Both a removed cgroup and the top of the hierarchy lack cgroup.events; only the top still has other files.
        try:
            read_text(self.fileno(), "cgroup.controllers", limit=1)
        except AlreadyGone:
            return Observation(liveness=Liveness.GONE, evidence="removed", detail=f"{self.path} was removed")
        except SystemCallError as error:
            return Observation(liveness=Liveness.UNKNOWN, evidence="unreadable", detail=str(error))
        return Observation(
            liveness=Liveness.UNKNOWN, evidence="no cgroup.events", detail=f"{self.path} is the top of a hierarchy"
        )

    def pids(self) -> frozenset[int]:
        """The processes in it and below, for looking at: signal by `signal`. One outside this pid namespace is left out."""
        return member_pids(self.fileno()) - {0}

    def children(self) -> list[str]:
        """Names of the cgroups directly below."""
        return child_names(self.fileno())

    def holds_caller(self) -> bool:
        """Whether this process lives in it or below; true when that cannot be told."""
        return caller_inside(self.fileno())

    def oom_kills(self) -> int | None:
        """Processes in it and below killed for want of memory; None where the memory controller does not count here.

        Source: admin-guide/cgroup-v2.rst, "memory.events" (4.13). With memory.oom.group one victim may count twice.
        """
        try:
            text = read_text(self.fileno(), "memory.events")
        except AlreadyGone:
            return None
        return parse_oom_kills(text)

    def wait_empty(self, timeout_s: float | None = None) -> None:
        """Block until nothing lives in it or below. Raises WaitTimeout after `timeout_s`."""
        deadline = deadline_after(timeout_s)
        try:
            events = self.events()
        except AlreadyGone:
            return
        if not events.wait(events.is_empty, deadline):
            raise WaitTimeout(f"cannot see {self.path!r} empty: still populated after {timeout_s} s")

    async def wait_empty_async(self, timeout_s: float | None = None) -> None:
        """As `wait_empty`, on the running asyncio loop."""
        deadline = deadline_after(timeout_s)
        try:
            events = self.events()
        except AlreadyGone:
            return
        if not await events.wait_async(events.is_empty, deadline):
            raise WaitTimeout(f"cannot see {self.path!r} empty: still populated after {timeout_s} s")

    def set_limits(self, limits: CgroupLimits, *, required: bool = True) -> tuple[str, ...]:
        """Have the controllers hold all that lives in it and below to `limits`; best before it is joined.

        Memory that members took before its controller acted here stays counted in the cgroup above.
        Where a controller does not act here and the cgroup above cannot be made to hand it down: raises Unsupported, which names
        it, before anything is changed, or, where only the kernel's refusal tells, before anything is set; with `required` false
        the others are set, and the files of those that are not enforced ("memory.max") are returned. Raises NotPermitted and the
        like. Lowering memory.max below what is used blocks until the kernel has reclaimed or killed. Source:
        admin-guide/cgroup-v2.rst (memory 4.5, pids 4.3, cpu 4.15).
        """
        if required:
            for limit in limits:
                self._need(limit, unavailable_controller(self.fileno(), limit.controller))
        reasons = {}
        for limit in limits:
            reasons[limit.file] = missing_controller(self.fileno(), limit.controller)
            if required:
                self._need(limit, reasons[limit.file])
        for limit in limits:
            if reasons[limit.file] is None:
                write_text(self.fileno(), limit.file, limit.value.encode())
        return tuple(limit.file for limit in limits if reasons[limit.file] is not None)

    def _need(self, limit: Limit, lacking: str | None) -> None:
        if lacking is not None:
            what = f"cannot set {limit.file} of cgroup {self.path!r}: no {limit.controller} controller there"
            raise Unsupported(f"{what}: {lacking}")

    # Acts on all of it. None is done to a cgroup that holds the caller.

    def signal(self, signal: int) -> SignalReport:
        """Send `signal` once to every process in it and below, by pidfd. Thaws and continues nobody.

        Raises SignalRefused when it holds the caller, NotPermitted where nobody can be listed; where only some cannot, the report
        is not `complete`. An empty or removed cgroup is a report of 0. For SIGKILL see `kill`.
        """
        self._refuse_caller("signal")
        swept = CgroupSweep(self.fileno(), signal, SeenTable(Facilities.current().bits)).run()
        if swept.unreadable and not (swept.signalled or swept.refused):
            raise from_errno(swept.unreadable, "list", f"the members of cgroup {self.path!r}")
        return SignalReport(
            signal=int(signal),
            route=Route.CGROUP if swept.signalled or swept.refused else Route.NOBODY,
            signalled=swept.signalled,
            refused=swept.refused,
            passes=swept.passes,
            complete=swept.complete,
        )

    def kill(self) -> SignalReport:
        """SIGKILL to all, by cgroup.kill (5.14) and by pidfd. Nobody is born after it; `wait_empty` sees the end."""
        return self.signal(_signal.SIGKILL)

    def freeze(self, timeout_s: float = FREEZE_TIMEOUT_S) -> None:
        """Stop all of it from running, and block until it has: cgroup.freeze (5.2). Raises SignalRefused, WaitTimeout."""
        self._refuse_caller("freeze")
        deadline = deadline_after(timeout_s)
        write_text(self.fileno(), "cgroup.freeze", b"1")
        events = self.events()
        if not events.wait(lambda: events.read().frozen, deadline):
            raise WaitTimeout(f"cannot see {self.path!r} frozen after {timeout_s} s")

    def thaw(self) -> None:
        """Undo `freeze`, here and in every cgroup below. Does not wait; one that is gone needs no thawing."""
        for fd in walk(self.fileno()):
            try:
                write_text(fd, "cgroup.freeze", b"0")
            except AlreadyGone:
                continue

    def remove(self, timeout_s: float = 2.0) -> None:
        """Remove it and all below, deepest first. Waits for it to be empty. One that is gone is success.

        Raises Busy when something still lives in it at the deadline. Only folders are removed, and only this very cgroup.
        """
        remove_cgroup(self.fileno(), self.path, time.monotonic() + checked_seconds("timeout_s", timeout_s))

    def _pack(self, events_fd: int) -> None:
        self.events_fd = events_fd
        kind = lib.SPUR_SUBJECT_NONE if events_fd < 0 else lib.SPUR_SUBJECT_CGROUP
        self.packed = SUBJECT.pack(kind, events_fd, 0, 0, 0, 0, b"")

    def _refuse_caller(self, verb: str) -> None:
        if self.holds_caller():
            raise SignalRefused(f"cannot {verb} cgroup {self.path!r}: the caller lives in it")


def parse_oom_kills(text: bytes) -> int | None:
    """The "oom_kill" line of memory.events; None when there is none."""
    for line in text.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"oom_kill" and value.isdigit():
            return int(value)
    return None


def _absolute(path: object) -> str:
    """Without ".": a ".." behind a symlink leads elsewhere than its spelling says, so none is guessed at."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument(f"cannot use cgroup path {path!r}: not a path")
    text = os.fsdecode(path)
    if not text.startswith("/") or "\0" in text or ".." in text.split("/") or not text.strip("/."):
        raise InvalidArgument(f"cannot use cgroup path {text[:200]!r}: not an absolute path without '..'")
    return os.path.normpath("/" + text.lstrip("/"))
