"""What a supervisor is given at its fork: the step, its lock, and its ways to others."""

from __future__ import annotations

from _socket import socket
from dataclasses import dataclass

from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.durable.lock import FolderLock
from spurproc.core.process.identity import ProcessIdentity
from spurproc.proto.step_folder import StepFolder

__all__ = ["Surroundings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """All of it belongs to the supervisor. `connection` is the launcher's, None for a successor, which nobody waits for."""

    step: StepFolder
    lock: FolderLock
    host: ProcessIdentity
    host_channel: socket
    root: CgroupRoot | None
    connection: socket | None = None
    is_rehearsal: bool = False
    """In the host itself, which has to keep what a supervisor gives up."""
