"""`cgroup.kill`: SIGKILL to a cgroup and all below it at once; and the dying behind it.

Source: admin-guide/cgroup-v2.rst, "cgroup.kill" (5.14). It asks for the right to write the file, and none over the members. It
misses a process whose main thread has exited while others run: a pass by pidfd reaches that.
"""

from __future__ import annotations

import time
from contextlib import suppress

from spurproc.core._native import lib
from spurproc.core.cgroup.events import CgroupEvents, open_events
from spurproc.core.cgroup.folder import write_text
from spurproc.core.cgroup.pids import PidList
from spurproc.core.cgroup.walk import walk
from spurproc.errors import SystemCallError

__all__ = ["DYING_S", "await_dying", "await_empty", "kill_at_once"]

DYING_S = 1.0
_LOOK_S = 0.02


def kill_at_once(folder_fd: int) -> int | None:
    """How many were listed right before; None: it was not written, or not taken. Never where pid 1 or the caller is listed."""
    listed = _listed(folder_fd)
    if any(pid > 0 and lib.spur_pid_guard(pid) for pid in listed):
        return None
    try:
        write_text(folder_fd, "cgroup.kill", b"1")
    except SystemCallError:
        return None  # threaded, not ours to write, or older than it seemed: the passes by pidfd do the work
    return len(listed)


def _listed(folder_fd: int) -> list[int]:
    """The processes there and below, each once, but for those that no number of ours names: 0 for each of them.

    A list that is refused has none. A threaded cgroup lists none either: its domain does.
    """
    pids = PidList()
    named: set[int] = set()
    unnamed: list[int] = []
    with suppress(SystemCallError):
        for fd in walk(folder_fd, []):
            count = pids.read(fd, b"cgroup.procs")  # before `pids.pids` is looked at: it may be another by then
            found = pids.pids[0 : max(0, count)]
            named.update(found)
            unnamed.extend(pid for pid in found if pid == 0)
    return [*(named - {0}), *unnamed]


def await_dying(folder_fd: int, killed: int) -> None:
    """Until nobody lives there, or for a moment none of so many has died; at most DYING_S."""
    deadline = time.monotonic() + DYING_S
    left = killed + 1
    while (now := len(_listed(folder_fd))) < left and time.monotonic() < deadline:
        left = now
        await_empty(folder_fd, _LOOK_S)


def await_empty(folder_fd: int, within_s: float) -> None:
    """Until nobody lives there, at most so long."""
    try:
        events = CgroupEvents(open_events(folder_fd))
    except SystemCallError:
        return
    try:
        events.wait(events.is_empty, time.monotonic() + within_s)
    finally:
        events.close()
