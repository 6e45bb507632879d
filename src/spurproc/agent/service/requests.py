"""What a peer asks on the agent's socket: one JSON object a line, the kinds told apart by a tag.

A connection begins with `Hello` and `Welcome`. Then come requests, one after the other, and to each one reply; `Wait` has many.
What ends, suspends or puts back an attempt names it, and is compared with the one that counts at the last moment.
"""

from __future__ import annotations

import msgspec

from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import PROTOCOL_VERSION

__all__ = [
    "Alloc",
    "Cancel",
    "Drain",
    "Hello",
    "Jobs",
    "Release",
    "Request",
    "Requeue",
    "Resume",
    "Show",
    "Status",
    "Submit",
    "Suspend",
    "Undrain",
    "Wait",
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
    """Reserve that, now or not at all, until `Release`, or this connection ends, or `for_s` seconds are over.

    Without `for_s` the node's own time limit of jobs holds for it too.
    """

    resources: ResourceRequest
    for_s: float | None = None


class Release(_Request, frozen=True, kw_only=True, tag="release"):
    """Give back what this connection has reserved."""


Request = Hello | Submit | Jobs | Show | Wait | Cancel | Suspend | Resume | Requeue | Drain | Undrain | Status | Alloc | Release
