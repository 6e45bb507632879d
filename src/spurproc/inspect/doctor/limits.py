"""Limits of this host and of this process that runs and supervisors will meet."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from spurproc.core.facilities import Facilities
from spurproc.inspect.doctor.finding import Finding, Status, read_text

__all__ = ["HELD_RUN_FDS", "find_limits"]

HELD_RUN_FDS = 6
"""Descriptors of an open RecordedRun with a cgroup: its folder and the one above, leader, recorder, cgroup and cgroup.events."""


def find_limits(here: Facilities) -> Iterator[Finding]:
    """RLIMIT_NOFILE, RLIMIT_NPROC, pid_max and threads-max."""
    yield _open_files()
    yield _processes()
    yield _pid_max(here)
    yield _host_number("threads-max", "threads of the whole host at once; a fork beyond that fails with EAGAIN")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    runs = "any number of" if soft == resource.RLIM_INFINITY else f"about {soft // HELD_RUN_FDS}"
    return _finding(
        "open files",
        Status.OK if soft == resource.RLIM_INFINITY else Status.LIMIT,
        f"soft {_text(soft)}, hard {_text(hard)}",
        f"a recorded run held open takes up to {HELD_RUN_FDS} descriptors: {runs} at once in one process",
        "getrlimit(2), RLIMIT_NOFILE",
    )


def _processes() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    exempt = os.getuid() == 0 and (read_text("/proc/self/uid_map") or "").split()[:2] == ["0", "0"]
    meaning = "processes and threads of this user at once, all of the host; a fork beyond that fails with EAGAIN"
    return _finding(
        "processes",
        Status.OK if soft == resource.RLIM_INFINITY or exempt else Status.LIMIT,
        f"soft {_text(soft)}, hard {_text(hard)}",
        "root is not held to it; a job that runs as another user inherits it and is" if exempt else meaning,
        "getrlimit(2), RLIMIT_NPROC",
    )


def _pid_max(here: Facilities) -> Finding:
    value = read_text("/proc/sys/kernel/pid_max")
    if value is None:
        return _unread("pid_max")
    if here.pidfs_inode:
        meaning = "processes and threads at once; numbers come back, and identities do not mind (pidfs inodes)"
    else:
        meaning = "processes and threads at once; numbers come back, and one that does within 10 ms is not told apart"
    return _finding("pid_max", Status.LIMIT, value, meaning, "/proc/sys/kernel/pid_max")


def _host_number(name: str, meaning: str) -> Finding:
    value = read_text(f"/proc/sys/kernel/{name}")
    return _unread(name) if value is None else _finding(name, Status.LIMIT, value, meaning, f"/proc/sys/kernel/{name}")


def _unread(name: str) -> Finding:
    return _finding(name, Status.UNKNOWN, "cannot be read", "", f"/proc/sys/kernel/{name}")


def _text(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _finding(name: str, status: Status, value: str, meaning: str, source: str) -> Finding:
    return Finding(area="limit", name=name, status=status, value=value, meaning=meaning, source=source)
