"""What /proc says of a process beside its identity: for looking only. What cannot be read is None."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.process_walk import ProcessRow, read_process
from spurproc.errors import SpurprocError
from spurproc.inspect.held import HeldProcess

__all__ = ["STATES", "ProcessFacts", "member_name", "process_facts"]

_LIMIT_BYTES = 4096

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in a wait that cannot be interrupted",
    "T": "stopped",
    "t": "stopped by a tracer",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
    "P": "parked",
}
"""The letters of proc_pid_stat(5), field 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """`command` is cut after 4096 bytes. `cgroup`: its cgroup v2 path as seen from here."""

    name: str | None
    command: tuple[str, ...] | None
    uid: int | None
    state: str | None
    parent_pid: int | None
    cgroup: str | None

    def to_json(self) -> dict[str, Any]:
        """A plain dict."""
        return {name: getattr(self, name) for name in self.__slots__}


def process_facts(held: HeldProcess) -> ProcessFacts:
    """Of the held process and no other: what goes by its number comes first, and only then that is shown to be its own still."""
    try:
        folder = os.open(f"/proc/{held.identity.pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return _NOTHING
    try:
        row = read_process(held.identity.pid)
        if ProcessIdentity.of_pidfd(held.pidfd) != held.identity:
            return _NOTHING
        return _read_folder(folder, row)
    except SpurprocError:
        return _NOTHING
    finally:
        os.close(folder)


_NOTHING = ProcessFacts(name=None, command=None, uid=None, state=None, parent_pid=None, cgroup=None)


def _read_folder(folder: int, row: ProcessRow | None) -> ProcessFacts:
    command = _read(folder, "cmdline")
    cgroup = _read(folder, "cgroup") or b""
    own = next((line[3:] for line in cgroup.split(b"\n") if line.startswith(b"0::")), None)
    return ProcessFacts(
        name=_text(_read(folder, "comm")),
        command=None if command is None else tuple(os.fsdecode(part) for part in command.rstrip(b"\0").split(b"\0") if command),
        uid=_uid(_read(folder, "status") or b""),
        state=None if row is None else row.state,
        parent_pid=None if row is None else row.parent_pid,
        cgroup=None if own is None else os.fsdecode(own),
    )


def member_name(row: ProcessRow) -> str | None:
    """The name of a member found by a walk; None where its number is another's by now."""
    try:
        fd = os.open(f"/proc/{row.pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        content = os.read(fd, _LIMIT_BYTES)
        now = read_process(row.pid)
    except (OSError, SpurprocError):
        return None
    finally:
        os.close(fd)
    return _text(content) if now is not None and now.start_ticks == row.start_ticks else None


def _read(folder: int, name: str) -> bytes | None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(fd, _LIMIT_BYTES)
        finally:
            os.close(fd)
    except OSError:
        return None


def _text(content: bytes | None) -> str | None:
    return None if content is None else os.fsdecode(content.removesuffix(b"\n"))


def _uid(status: bytes) -> int | None:
    return next((int(line.split()[1]) for line in status.split(b"\n") if line.startswith(b"Uid:")), None)
