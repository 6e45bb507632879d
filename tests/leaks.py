"""What a test left behind: processes, zombies, descriptors, cgroups."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import cgroup_folder
from tests.pidfds import open_pidfd, wait_reaped
from tests.reaper import children_of, reaper_pid

# An orphan that has been told to end may need a moment to do so; a test cannot wait for what it holds no handle of.
_ORPHAN_GRACE_S = 2.0
# The root that the product makes for itself stands for the whole run, with these folders.
_STANDING = ("", "/supervisors", "/steps", "/hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What there was at one moment: (pid, start ticks) of processes, targets by descriptor, (path, inode) of cgroups."""

    children: frozenset[tuple[int, bytes]]
    orphans: frozenset[tuple[int, bytes]]
    descriptors: dict[int, str]
    cgroups: frozenset[tuple[str, int]]

    @classmethod
    def take(cls) -> Snapshot:
        """Look now. Does not block."""
        return cls(
            children=frozenset(_processes(os.getpid())),
            orphans=frozenset(_processes(reaper_pid())),
            descriptors=_descriptors(),
            cgroups=frozenset(_cgroups()),
        )

    def leaks(self) -> list[str]:
        """Name what is there now and was not then, and clean it up, so that the next test starts clean."""
        return [
            *(_end_child(pid) for pid, _ in _processes(os.getpid()) - self.children),
            *_end_orphans(self.orphans),
            *_new_descriptors(self.descriptors),
            *(_remove_cgroup(path) for path, _ in sorted(_cgroups() - self.cgroups, reverse=True)),
        ]


def _processes(parent: int | None) -> set[tuple[int, bytes]]:
    if parent is None:
        return set()
    found: set[tuple[int, bytes]] = set()
    for pid in children_of(parent) - {os.getpid(), os.getppid()}:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add((pid, _stat(pid)[19]))
    return found


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on: [0] is field 3, [19] is field 22. proc_pid_stat(5)."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def _describe(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") or Path(f"/proc/{pid}/comm").read_bytes()
        return f"{pid} (state {_stat(pid)[0].decode()}, {command.decode(errors='backslashreplace').strip()!r})"
    except (FileNotFoundError, ProcessLookupError):
        return str(pid)


def _end_child(pid: int) -> str:
    """A child is pinned until we reap it, so its number is safe here. Field 3 tells a zombie from a live one."""
    what = _describe(pid)
    kind = "zombie child, never reaped" if _stat(pid)[0] == b"Z" else "live child process"
    with _held(pid) as pidfd:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    return f"{kind} {what}"


def _end_orphans(before: frozenset[tuple[int, bytes]]) -> list[str]:
    """Orphans end by themselves within the grace, or they are leaks. Killing one may hand its children to us: look again."""
    found: list[str] = []
    known = set(before)
    deadline = time.monotonic() + _ORPHAN_GRACE_S
    while fresh := _processes(reaper_pid()) - known:
        known |= fresh
        for pid, ticks in fresh:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError), _held(pid) as pidfd:
                if _stat(pid)[19] != ticks:
                    continue
                if _ended(pidfd, max(0.0, deadline - time.monotonic())):
                    wait_reaped(pidfd, _ORPHAN_GRACE_S)
                    continue
                found.append(f"orphan process {_describe(pid)}")
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                wait_reaped(pidfd, _ORPHAN_GRACE_S)
    return found


@contextmanager
def _held(pid: int) -> Iterator[int]:
    pidfd = open_pidfd(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _ended(pidfd: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def _descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this very listing
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def _new_descriptors(before: dict[int, str]) -> list[str]:
    """Named and left open: whoever owns the number may yet close it, and then it must not be somebody else's."""
    return [f"file descriptor {fd} -> {target}" for fd, target in _descriptors().items() if before.get(fd) != target]


def _cgroups() -> set[tuple[str, int]]:
    """Those of this run only: a folder beside it may belong to anybody, and what is found here is killed."""
    if cgroup_folder.base() is None or not cgroup_folder.session_folder().exists():
        return set()
    own = str(cgroup_folder.session_folder())
    standing = {own, *(f"{own}/root{tail}" for tail in _STANDING)}
    return {(path, inode) for path, inode in cgroup_folder.below(Path(own)) if path not in standing}


def _remove_cgroup(path: str) -> str:
    members = " ".join(Path(path, "cgroup.procs").read_text().split())
    cgroup_folder.remove(Path(path))
    return f"cgroup {path} (members: {members or 'none'})"
