"""The interface of the agent to whoever gives it work, and all that is said there.

Nothing here has to arrive just once. Each order stands until the agent shows that it has it (`NodeView`), each report is repeated
until it is answered, each description of the node replaces the one before: so whatever was lost is said again, and whatever is
said again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = [
    "Acknowledged",
    "AttemptReport",
    "Beat",
    "Cancel",
    "ControllerLink",
    "Dispatch",
    "Healthy",
    "NodeDescription",
    "NodeView",
    "NotFound",
    "Nothing",
    "Reclaim",
    "RefusedForGood",
    "Registered",
    "Unreachable",
]


class Unreachable(SpurprocError):
    """The controller did not answer, and may have got the message or not. To be said again, later."""


class NodeView(Protocol):
    """What the agent shows of itself when it asks for work: what is free, and which orders it has.

    None of it is a receipt. It is as the agent knows it in this life, and may be on its way to the store: what was shown counts
    under this registration alone. An agent that died on that way registers anew, and shows what it has then. Only its report is
    the last that is heard of an attempt.
    """

    def fits(self, request: ResourceRequest) -> bool:
        """Whether it could be given now. Changes nothing."""
        ...

    def has(self, attempt: AttemptId) -> bool:
        """Whether the node has that attempt in hand: its dispatch need not be said again."""
        ...

    def cancelling(self, attempt: AttemptId) -> bool:
        """Whether the node is at ending that attempt, or the attempt is over there."""
        ...


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run this attempt. Said again until the node shows that it has it, see `NodeView`."""

    attempt: AttemptId
    spec: JobSpec


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End exactly this attempt: who wants it, and why. Said again until `NodeView.cancelling` it."""

    attempt: AttemptId
    uid: int | None = None
    why: str = ""


class Reclaim(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The controller has given this attempt up: end it. Of any other attempt of that job it says nothing."""

    attempt: AttemptId
    why: str = ""


class Nothing(msgspec.Struct, frozen=True, tag=True):
    """There is nothing that this node could do now."""


class Registered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The node is known as it was described. `generation`: a later registration has a higher one; it goes into each beat."""

    generation: int


class Healthy(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The beat was heard; what is to be taken back."""

    reclaims: tuple[Reclaim, ...] = ()


class NotFound(msgspec.Struct, frozen=True, tag=True):
    """The controller knows no such registration of this node (any more): register again."""


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    """The report is durable where it belongs, by this one or by one before."""


class RefusedForGood(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """That report will never be taken, and why."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """What a controller knows of a node; made anew for each time it is sent, and compared to tell whether it has to be."""

    node: str
    boot_id: str
    version: str
    totals: Inventory
    """All that the node has, whatever is in use."""
    labels: Mapping[str, str] = field(default_factory=dict)
    drains: tuple[str, ...] = ()
    """Why it takes no new work; empty: it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign of life."""

    generation: int
    running: tuple[AttemptId, ...] = ()
    """What the node is at, so that the controller can tell what is lost and what is to be taken back."""


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt. Repeated until it is answered."""

    attempt: AttemptId
    end: ExitInfo
    cancelled: bool = False
    """Whether it was told to end. How it really ended is `end`, which may say that it was quicker."""
    node_fault: str | None = None
    """Where the node is to blame and not the job: what went wrong."""
    started_at: float | None = None
    """Wall clock, in seconds; None where it never ran."""
    ended_at: float | None = None
    not_enforced: tuple[str, ...] = ()
    """The limits that it was to be held to and was not, as files of its cgroup: "memory.max"."""


class ControllerLink(Protocol):
    """The five things that are said. Each raises Unreachable where no answer came."""

    async def register(self, node: NodeDescription) -> Registered:
        """Make the node known, or known as it is by now."""
        ...

    async def deregister(self) -> None:
        """This node is gone and runs nothing. One that is not known is fine."""
        ...

    async def heartbeat(self, beat: Beat) -> Healthy | NotFound:
        """Say that the node lives."""
        ...

    async def take_work(self, free: NodeView) -> Dispatch | Cancel | Nothing | NotFound:
        """The next order, at once."""
        ...

    async def await_work(self) -> None:
        """Return when `take_work` may have another answer than before. Early is fine."""
        ...

    async def report(self, report: AttemptReport) -> Acknowledged | RefusedForGood:
        """What became of an attempt."""
        ...

    async def drain(self, reasons: tuple[str, ...]) -> NotFound | None:
        """Why the node takes no new work now; empty: it does again."""
        ...
