"""The processes that /proc lists, and two ways to find a tree among them: descent and the process group.

The weaker ways, for where there is no cgroup. A walk is not one moment: what is found is held by pidfd and looked at again before
anything is done to it, and "none found" is a proof only for the descendants of a living subreaper.
"""

from __future__ import annotations

import errno
import os
import signal as _signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from spurproc.core._native import ffi, lib
from spurproc.core.cgroup.sweep import SeenTable
from spurproc.core.facilities import Facilities
from spurproc.core.mountinfo import read_mountinfo
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity, number_here, procfs_is_ours
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.vantage import STARVED
from spurproc.errors import SpurprocError, from_errno

__all__ = [
    "Descent",
    "GroupOf",
    "ProcessRow",
    "Rule",
    "descendants",
    "proc_shows_all",
    "read_process",
    "read_processes",
    "unique",
]


_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP
_CAP_SYS_PTRACE = 19  # capabilities(7)


class ProcessRow(NamedTuple):
    """One process as `/proc/PID/stat` has it. `ended`: a zombie with no thread left."""

    pid: int
    parent_pid: int
    process_group: int
    session: int
    state: str
    start_ticks: int
    ended: bool


def read_process(pid: int) -> ProcessRow | None:
    """The process of that number, None when there is none to be seen, or /proc names those of another pid namespace.

    Raises SystemCallError for want of descriptors or memory, which is not that there is none.
    """
    if not procfs_is_ours():
        return None
    stat: Any = ffi.new("spur_procstat_t *")
    error = lib.spur_procstat_read(pid, stat)
    if -error in STARVED:
        raise from_errno(-error, "read", f"the state of process {pid}")
    if error < 0:
        return None
    return ProcessRow(
        pid=stat.pid,
        parent_pid=stat.parent_pid,
        process_group=stat.process_group,
        session=stat.session,
        state=stat.state.decode("latin-1"),
        start_ticks=stat.start_ticks,
        ended=bool(lib.spur_procstat_ended(stat)),
    )


def read_processes() -> dict[int, ProcessRow]:
    """All that can be seen, by pid, with a read for each. Raises SystemCallError when the walk cannot be finished."""
    if not procfs_is_ours():
        return {}
    try:
        names = os.listdir("/proc")
    except OSError as error:
        raise from_errno(error.errno or errno.EIO, "list", "/proc") from None
    rows = (read_process(int(name)) for name in names if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def proc_shows_all() -> bool:
    """Whether /proc names our own pid namespace's processes and hides none (hidepid, proc(5))."""
    if not procfs_is_ours():
        return False
    mounts = [mount for mount in read_mountinfo() if mount.point == "/proc"]
    hides = bool(mounts) and any(
        option.startswith("hidepid=") and option not in ("hidepid=0", "hidepid=off") for option in mounts[-1].super_options
    )
    return not hides or _sees_hidden()


def _sees_hidden() -> bool:
    """CAP_SYS_PTRACE over all user namespaces: hidepid asks for ptrace rights, which root in a namespace of its own lacks."""
    with open("/proc/self/status", "rb") as file:
        effective = next(int(line.split()[1], 16) for line in file if line.startswith(b"CapEff:"))
    with open("/proc/self/uid_map", "rb") as file:
        whole = file.read().split() == [b"0", b"0", b"4294967295"]
    return whole and bool(effective >> _CAP_SYS_PTRACE & 1)


class Rule(Protocol):
    """A way to tell who belongs to a tree."""

    def find(self) -> list[ProcessRow]:
        """The living members, by one walk."""


class Descent:
    """The descendants of a living subreaper: whatever they do, they stay below it (PR_SET_CHILD_SUBREAPER, prctl(2))."""

    def __init__(self, subreaper: ProcessIdentity) -> None:
        self._subreaper = subreaper

    def root_lives(self) -> bool:
        """Whether the subreaper is there to hold them together; without it nothing can be told."""
        return self._subreaper.liveness() is Liveness.ALIVE

    def find(self) -> list[ProcessRow]:
        """The living descendants, itself excluded; none when the subreaper cannot be seen to live after the walk."""
        rows = read_processes()
        root = rows.get(number_here(self._subreaper, None))
        if root is None or not self.root_lives():
            return []
        found = list(descendants(rows, root))
        doubtful = _doubtful(found, root)
        if doubtful:
            found = list(descendants({pid: row for pid, row in rows.items() if pid not in doubtful}, root))
        return [row for row in found if not row.ended]


def _doubtful(found: list[ProcessRow], root: ProcessRow) -> set[int]:
    """Whom a second look does not bear out: what was read as a parent's child may be that of a stranger with its number.

    The number is another's now; or it is nobody's, and the child was not handed on to one of the tree.
    """
    known = {row.pid: row for row in found}
    parents = {row.parent_pid for row in found} & known.keys()
    now = {pid: read_process(pid) for pid in parents}
    doubtful = {pid for pid, row in now.items() if row is not None and row.start_ticks != known[pid].start_ticks}
    for child in (read_process(row.pid) for row in found if row.parent_pid in parents and now[row.parent_pid] is None):
        if child is not None and child.parent_pid != root.pid and child.parent_pid not in known:
            doubtful.add(child.pid)
    return doubtful


def descendants(rows: dict[int, ProcessRow], root: ProcessRow) -> Iterator[ProcessRow]:
    """Those below `root`, itself excluded, in a walk that may be torn: parents change while it goes on."""
    children: defaultdict[int, list[ProcessRow]] = defaultdict(list)
    for row in rows.values():
        if row.pid != root.pid:
            children[row.parent_pid].append(row)
    pending = [root]
    while pending:
        parent = pending.pop()
        for child in children.pop(parent.pid, ()):
            # A child is not older than its parent: this drops whose parent's number changed hands during the walk.
            if child.start_ticks >= parent.start_ticks:
                pending.append(child)
                yield child


class GroupOf:
    """The process group that the leader's number names, and the session.

    Both are known by that number alone, so it must be pinned: by the leader, not reaped yet, or by its pidfd from before, if the
    kernel still finds members of its group through it (PIDFD_SIGNAL_PROCESS_GROUP, 6.9). Else a stranger may have it by now.
    """

    def __init__(self, leader: ProcessIdentity, leader_pidfd: Pidfd | None) -> None:
        """Borrows `leader_pidfd`; without one the leader is held while this is open, if it is there to be held."""
        self._owned: Pidfd | None = None
        self._known: list[ProcessRow] = []
        if leader_pidfd is None:
            with suppress(SpurprocError):
                self._owned = leader.open()
        self._pidfd = leader_pidfd or self._owned
        self._number = number_here(leader, self._pidfd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._owned is not None:
            self._owned.close()

    def leader_in(self, seen: SeenTable) -> bool:
        """Whether the leader is among those signalled already, or is past being signalled: it has ended."""
        if self._pidfd is None or self._pidfd.liveness() is Liveness.GONE:
            return True
        with suppress(SpurprocError):
            return seen.key(self._pidfd.fileno(), self._number) in seen
        return True

    def pinned(self) -> bool:
        """Whether the number is the leader's, now."""
        if self._pidfd is None or self._number == 0:  # 0 is the group of the kernel's own threads
            return False
        if lib.spur_pidfd_unreaped(self._pidfd.fileno(), self._pidfd.facilities) == 0:
            return True
        return self.signal_group(0) or any(map(self._still_there, self._known))

    def signal_group(self, signal: int) -> bool:
        """Signal the whole group at once, through the leader's pidfd; whether it was sent. For 0: whether it has members."""
        if self._pidfd is None or not Facilities.current().pidfd_process_group:
            return False
        try:
            _signal.pidfd_send_signal(self._pidfd.fileno(), signal, None, _PROCESS_GROUP)
        except PermissionError:
            return signal == 0
        except OSError:
            return False
        return True

    def holds_caller(self) -> bool:
        """Whether this process is the leader, or in its group or session."""
        return self._number in (os.getpid(), os.getpgid(0), os.getsid(0)) and self.pinned()

    def find(self) -> list[ProcessRow]:
        """The living members; none when the number cannot be shown to be the leader's, before and after the walk."""
        if not self.pinned():
            return []
        rows = read_processes()
        found = [row for row in rows.values() if self._belongs(row) and not row.ended]
        if not self.pinned():
            return []
        self._known = found
        return found

    def _still_there(self, known: ProcessRow) -> bool:
        """A member found while the number was pinned, there yet, has kept it in use: nobody leaves a session and comes back."""
        now = read_process(known.pid)
        return now is not None and now.start_ticks == known.start_ticks and now.session == known.session == self._number

    def _belongs(self, row: ProcessRow) -> bool:
        return self._number in (row.pid, row.process_group, row.session)


def unique(rows: Iterable[ProcessRow]) -> list[ProcessRow]:
    """Each process once, in the order of their numbers."""
    return sorted({(row.pid, row.start_ticks): row for row in rows}.values())
