"""Cgroup folders for tests, made and removed without the code under test."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import time
from functools import cache
from pathlib import Path

PREFIX = "spurproc-test-"
# Everything that one run makes lies under one folder, so that runs side by side do not see each other's as leaks. The
# token goes down to the runs that a run starts.
TOKEN_VARIABLE = "SPURPROC_TEST_TOKEN"
_TOKEN = os.environ.setdefault(TOKEN_VARIABLE, f"{os.getpid()}-{secrets.token_hex(4)}")
_REMOVE_TIMEOUT_S = 10.0


@cache
def mount() -> Path | None:
    """Where cgroup2 is mounted, by the kind of the file system: pure, hybrid and bound mounts alike. proc_pid_mountinfo(5)."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, kind = line.partition(" - ")
            if kind.split(" ", 1)[0] == "cgroup2":
                return Path(fields.split(" ")[4].encode().decode("unicode_escape"))
    return None


@cache
def base() -> Path | None:
    """The topmost folder in which this user may make cgroups: the mount, or the cgroup that we run in. None if neither."""
    top = mount()
    if top is None:
        return None
    for candidate in (top, top / _path_of("self").lstrip("/")):
        if os.access(candidate, os.W_OK) and os.access(candidate / "cgroup.procs", os.W_OK):
            return candidate
    return None


def home_of(pid: int) -> Path:
    """The cgroup that a process is in."""
    top = mount()
    if top is None:
        raise FileNotFoundError("cgroup2 is not mounted")
    return top / _path_of(pid).lstrip("/")


def _path_of(pid: int | str) -> str:
    return next((line[3:] for line in _lines(f"/proc/{pid}/cgroup") if line.startswith("0::")), "/")


def session_folder() -> Path:
    """The folder of this run; made when the run starts, removed when it has ended."""
    top = base()
    if top is None:
        raise FileNotFoundError("no writable cgroup2 folder")
    return top / f"{PREFIX}{_TOKEN}"


def make() -> Path:
    """A fresh, empty cgroup; its name has not been used before and nothing above it is ever killed."""
    folder = session_folder() / f"test-{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def remove(folder: Path) -> None:
    """Kill everything in `folder`, wait until it is empty and remove it with all below it. Gone already is fine."""
    if not folder.exists():
        return
    with contextlib.suppress(FileNotFoundError):
        (folder / "cgroup.kill").write_text("1")
    _wait_empty(folder, time.monotonic() + _REMOVE_TIMEOUT_S)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove `folder` and all below it, deepest first, each through the folder descriptor of its parent."""
    for _, names, _, parent in os.fwalk(folder, topdown=False):
        for name in names:
            os.rmdir(name, dir_fd=parent)
    folder.rmdir()


def below(folder: Path) -> set[tuple[str, int]]:
    """Every cgroup below `folder`, as (path, inode)."""
    found: set[tuple[str, int]] = set()
    for path, _, _, descriptor in os.fwalk(folder):
        found.add((path, os.fstat(descriptor).st_ino))
    return found


def enable(controller: str, folder: Path) -> None:
    """Let `controller` act in the cgroups below `folder`, from the mount down. Needs root: say so by markers."""
    for above in reversed((folder, *folder.parents)):
        control = above / "cgroup.subtree_control"
        if control.exists() and controller not in control.read_text().split():
            control.write_text(f"+{controller}")


def _wait_empty(folder: Path, deadline: float) -> None:
    """Wait for `populated 0`. Source: admin-guide/cgroup-v2.rst, "cgroup.events"; a change makes the file POLLPRI."""
    with open(folder / "cgroup.events", "rb", buffering=0) as events:
        poller = select.poll()
        poller.register(events, select.POLLPRI)
        while b"populated 0" not in os.pread(events.fileno(), 4096, 0):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"cannot empty {folder}: {(folder / 'cgroup.procs').read_text().split()}")
            poller.poll(left_s * 1000)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
