"""What the agent answers on its socket; see `spurproc.agent.service.requests`."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.service.shown import AttemptView, DrainView, HeldView, JobView, ProgramView
from spurproc.core.tree.termination import KillPlan
from spurproc.proto.attempt_id import AttemptId

__all__ = [
    "CancelTaken",
    "Changed",
    "Done",
    "Ended",
    "JobDetail",
    "JobList",
    "NodeStatus",
    "Refusal",
    "Refused",
    "Reply",
    "RequeueTaken",
    "Reserved",
    "Submitted",
    "Welcome",
]


class _Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="reply", omit_defaults=True):
    pass


class Welcome(_Reply, frozen=True, kw_only=True, tag="welcome"):
    """To Hello: who we are, and whom the kernel takes the peer for."""

    v: int
    version: str
    node: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    user: str
    root: bool
    """Whether the peer may do all: root, or the user as whom the agent runs."""
    script_limit_bytes: int
    output_pattern: str
    """Where output goes of a job that says nothing of it."""
    kill_plan: KillPlan
    """How one is ended that says nothing of it."""


class Refusal(enum.Enum):
    """What kind of refusal it is."""

    MALFORMED = "malformed"
    """No message that is known here; the connection is over."""
    VERSION = "version"
    TOO_MANY = "too-many"
    """Too many connections, or too large a message; the connection is over."""
    NOT_PERMITTED = "not-permitted"
    NOT_FOUND = "not-found"
    """There is none, or it belongs to somebody else."""
    INVALID = "invalid"
    UNSUPPORTED = "unsupported"
    """This node could never do it."""
    BUSY = "busy"
    """Not now."""
    OTHER_ATTEMPT = "other-attempt"
    FAILED = "failed"


class Refused(_Reply, frozen=True, kw_only=True, tag="refused"):
    """Nothing was done, and why."""

    kind: Refusal
    why: str


class Submitted(_Reply, frozen=True, kw_only=True, tag="submitted"):
    """To Submit, once the job is durable. `repeated`: it is there since an earlier submission with the same key."""

    job_id: int
    repeated: bool = False
    warnings: tuple[str, ...] = ()


class JobList(_Reply, frozen=True, kw_only=True, tag="jobs"):
    """To Jobs. `more`: there may be another page."""

    jobs: tuple[JobView, ...] = ()
    more: bool = False


class JobDetail(_Reply, frozen=True, kw_only=True, tag="job"):
    """To Show. `program` is None, with the reason, where it cannot be read."""

    job: JobView
    attempts: tuple[AttemptView, ...] = ()
    program: ProgramView | None = None
    damaged: str | None = None


class Changed(_Reply, frozen=True, kw_only=True, tag="changed"):
    """To Wait: how the job stands now."""

    job: JobView


class Ended(_Reply, frozen=True, kw_only=True, tag="ended"):
    """To Wait, at last. `attempt` is the last one; None where nobody knows of any."""

    job: JobView
    attempt: AttemptView | None = None


class CancelTaken(_Reply, frozen=True, kw_only=True, tag="cancel-taken"):
    """To Cancel: what came of it."""

    answer: str


class RequeueTaken(_Reply, frozen=True, kw_only=True, tag="requeue-taken"):
    """To Requeue: the attempt that comes. `now`: it is in the queue; else once the one before has ended."""

    attempt: AttemptId
    now: bool


class Done(_Reply, frozen=True, kw_only=True, tag="done"):
    """It was done. `changed` False: it was so before."""

    changed: bool = True


class NodeStatus(_Reply, frozen=True, kw_only=True, tag="status"):
    """To Status: how the node is."""

    node: str
    version: str
    boot_id: str
    agent_uid: int
    started_at: float
    registered: bool
    totals: Inventory | None = None
    free: Inventory | None = None
    missing: Inventory | None = None
    """Given to a job, and not there any more."""
    drains: tuple[DrainView, ...] = ()
    jobs: Mapping[str, int] = {}
    """How many attempts are at what, by its word."""
    held: tuple[HeldView, ...] = ()
    not_enforced: Mapping[str, str] = {}
    """By controller (`memory`, `pids`, `cpu`), why no job is held to what it asks for of that; without those that hold each."""
    problems: tuple[str, ...] = ()
    """What somebody should be told of: a reading that failed, a quarantine, a unit that would kill jobs."""


class Reserved(_Reply, frozen=True, kw_only=True, tag="reserved"):
    """To Alloc: what is yours. `env`: what a job that had it would be told. `for_s`: it is taken back after that."""

    attempt: AttemptId
    allocation: Allocation
    env: Mapping[str, str] = {}
    for_s: float | None = None


Reply = (
    Welcome
    | Refused
    | Submitted
    | JobList
    | JobDetail
    | Changed
    | Ended
    | CancelTaken
    | RequeueTaken
    | Done
    | NodeStatus
    | Reserved
)
