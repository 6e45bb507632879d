"""Moving members between cgroups, and looking at trees without the code under test."""

from __future__ import annotations

import os
from pathlib import Path

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from tests.payload import Payload


def move(pid: int, folder: Path) -> None:
    """Put the process into the cgroup. Source: admin-guide/cgroup-v2.rst, "Organizing Processes"."""
    (folder / "cgroup.procs").write_text(str(pid))


def listed(folder: Path) -> set[int]:
    """The pids of cgroup.procs, here and below."""
    return {int(pid) for path, _, _ in os.walk(folder) for pid in Path(path, "cgroup.procs").read_text().split()}


def inside(folder: Path, name: str) -> Path:
    """A new cgroup below `folder`."""
    below = folder / name
    below.mkdir()
    return below


def tree_of(leader: Payload, *, pidfd: Pidfd | None = None, **parts: object) -> ProcessTree:
    """The tree that a payload leads."""
    held = Leader(identity=ProcessIdentity.of(leader.pid), pidfd=pidfd)
    return ProcessTree(leader=held, **parts)  # type: ignore[arg-type]  # the parts of a tree


def released(payload: Payload) -> int:
    """The return code of a payload that is let go: 0 when nothing was sent to it."""
    payload.release()
    return payload.reap()
