"""Jobs, attempts and the node as they are told on the agent's socket: the parts of replies."""

from __future__ import annotations

import msgspec

from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.core.exit_info import ExitInfo
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import RawText

__all__ = [
    "AttemptView",
    "DrainView",
    "HeldView",
    "JobView",
    "ProgramView",
]


class JobView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job in one line. `state` is the controller's word, `phase` the agent's for what the attempt does just now."""

    attempt: AttemptId
    """The one that counts: queued, running, or the last."""
    state: str
    phase: str | None = None
    held_because: str | None = None
    name: str
    uid: int
    user: str
    submitted_by: int
    submitted_at: float
    requeue_wanted: bool = False
    resources: ResourceRequest | None = None
    """None where it cannot be read."""
    end: ExitInfo | None = None
    """How it ended, once it has; in a list alone."""
    cancelled: bool = False
    damaged: str | None = None
    """What of its record, or, in a list, of that of its end, cannot be read."""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt in a job's history. That it was cancelled stands beside how it really ended."""

    attempt: AttemptId
    dispatched_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    end: ExitInfo | None = None
    cancelled: bool = False
    cancelled_by: int | None = None
    cancelled_because: str | None = None
    node_fault: str | None = None
    allocation: Allocation | None = None
    """What it has, while it has it."""
    work_dir: RawText | None = None
    stdout: RawText | None = None
    """Absolute paths of its streams; None: the null device, or not known."""
    stderr: RawText | None = None
    not_enforced: tuple[str, ...] = ()
    """The limits that it asked for and was not held to, as files of its cgroup: "memory.max"."""
    damaged: str | None = None
    """What of its record cannot be read."""


class ProgramView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job runs, without the text of its script, and as whom."""

    argv: tuple[RawText, ...] = ()
    script_bytes: int | None = None
    work_dir: RawText | None = None
    gid: int
    groups: tuple[int, ...] = ()
    time_limit_s: float | None = None
    requeue: str = ""


class DrainView(msgspec.Struct, frozen=True, kw_only=True):
    """Why the node takes no new work. `kind`: the operator's, or the system's, which lifts itself."""

    kind: str
    cause: str
    why: str
    since: float


class HeldView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that keeps its resources, for it cannot be told whether it is over; or a report that nobody takes."""

    attempt: AttemptId
    uid: int
    why: str
