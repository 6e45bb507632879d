"""What is said on the agent's socket: one JSON object a line, the kinds told apart by a tag.

A connection begins with `Hello` and `Welcome`. Then come requests, one after the other, and to each one reply; `Wait` has many.
What ends, suspends or puts back an attempt names it, and is compared with the one that counts at the last moment.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.core.exit_info import ExitInfo
from spurproc.core.tree.termination import KillPlan
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import PROTOCOL_VERSION
from spurproc.proto.raw_text import RawText

__all__ = [
    "Alloc",
    "AttemptView",
    "Cancel",
    "CancelTaken",
    "Changed",
    "Done",
    "Drain",
    "DrainView",
    "Ended",
    "HeldView",
    "Hello",
    "JobDetail",
    "JobList",
    "JobView",
    "Jobs",
    "NodeStatus",
    "ProgramView",
    "Refusal",
    "Refused",
    "Release",
    "Reply",
    "Request",
    "Requeue",
    "RequeueTaken",
    "Reserved",
    "Resume",
    "Show",
    "Status",
    "Submit",
    "Submitted",
    "Suspend",
    "Undrain",
    "Wait",
    "Welcome",
]


class _Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="request"):
    pass


class Hello(_Request, frozen=True, kw_only=True, tag="hello"):
    """The first message of every connection. `program`: which one speaks, for people."""

    v: int = PROTOCOL_VERSION
    program: str = ""


class Submit(_Request, frozen=True, kw_only=True, tag="submit"):
    """Put a job into the queue. As whom it runs has to be the peer itself, as `Welcome` has it, unless the peer is root.

    `key`: of all submissions of a peer's user with the same key there is one job.
    """

    spec: JobSpec
    key: str | None = None


class Jobs(_Request, frozen=True, kw_only=True, tag="jobs"):
    """A page of jobs, the latest first. `uid` None: all that the peer may see. `before`: with a lower id than that.

    `states`: of the controller, by their words; none: all.
    """

    uid: int | None = None
    states: tuple[str, ...] = ()
    before: int | None = None
    limit: int = 200


class Show(_Request, frozen=True, kw_only=True, tag="show"):
    """All that is known of a job."""

    job_id: int


class Wait(_Request, frozen=True, kw_only=True, tag="wait"):
    """Tell how the job stands, and of every change, until it has ended. The last reply is `Ended`."""

    job_id: int


class Cancel(_Request, frozen=True, kw_only=True, tag="cancel"):
    """End exactly this attempt."""

    attempt: AttemptId
    why: str = ""


class Suspend(_Request, frozen=True, kw_only=True, tag="suspend"):
    """Freeze exactly this attempt."""

    attempt: AttemptId


class Resume(_Request, frozen=True, kw_only=True, tag="resume"):
    """Undo Suspend."""

    attempt: AttemptId


class Requeue(_Request, frozen=True, kw_only=True, tag="requeue"):
    """Run the job of this attempt once more, as a new one; it is ended first if it runs."""

    attempt: AttemptId
    why: str = ""


class Drain(_Request, frozen=True, kw_only=True, tag="drain"):
    """Start nothing new. What runs goes on."""

    why: str = ""


class Undrain(_Request, frozen=True, kw_only=True, tag="undrain"):
    """Undo the operator's Drain. Drains of the system lift themselves."""


class Status(_Request, frozen=True, kw_only=True, tag="status"):
    """How the node is."""


class Alloc(_Request, frozen=True, kw_only=True, tag="alloc"):
    """Reserve that, now or not at all, until `Release`, or this connection ends, or `for_s` seconds are over."""

    resources: ResourceRequest
    for_s: float | None = None


class Release(_Request, frozen=True, kw_only=True, tag="release"):
    """Give back what this connection has reserved."""


Request = Hello | Submit | Jobs | Show | Wait | Cancel | Suspend | Resume | Requeue | Drain | Undrain | Status | Alloc | Release


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
    problems: tuple[str, ...] = ()
    """What somebody should be told of: a reading that failed, a quarantine, a unit that would kill jobs."""


class Reserved(_Reply, frozen=True, kw_only=True, tag="reserved"):
    """To Alloc: what is yours. `env`: what a job that had it would be told."""

    attempt: AttemptId
    allocation: Allocation
    env: Mapping[str, str] = {}


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
