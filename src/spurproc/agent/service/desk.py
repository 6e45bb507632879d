"""What the service asks of the agent: the controller it has itself, and what only who runs the attempts can tell or do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.news import JobNews
from spurproc.agent.service.replies import NodeStatus
from spurproc.agent.service.shown import DrainView
from spurproc.core.tree.termination import KillPlan
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import RawText

__all__ = ["AttemptNow", "Desk", "Places", "Reservation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNow:
    """An attempt that the agent has: what it does just now."""

    phase: str
    """The word of its `AttemptState`."""
    held_because: str | None = None
    allocation: Allocation | None = None
    started_at: float | None = None
    not_enforced: tuple[str, ...] = ()
    """The limits that it is not held to, as files of its cgroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where an attempt works and writes: absolute paths, patterns filled in. None: the null device."""

    work_dir: RawText
    stdout: RawText | None
    stderr: RawText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A bare reservation. `env`: what a job that had it would be told."""

    attempt: AttemptId
    allocation: Allocation
    env: Mapping[str, str] = field(default_factory=dict)


class Desk(Protocol):
    """The agent as the service sees it. Who may ask for what the service has found out before it asks.

    Each raises what `spurproc.errors` has for it: Busy (not now), AlreadyGone (no such attempt here), Unsupported. All are called
    on the agent's event loop.
    """

    node: str
    controller: LocalController
    news: JobNews
    """Told by the agent whenever an attempt moves on."""
    script_limit_bytes: int
    output_pattern: str
    kill_plan: KillPlan
    """The node's own for jobs that bring none."""
    time_limit_s: float | None
    """The node's own for jobs and reservations that bring none."""
    not_enforced: Mapping[str, str]
    """By controller (`memory`, `pids`, `cpu`), why no job is held to what it asks for of that; without those that hold each."""

    async def await_registered(self) -> None:
        """Until the controller knows what the node has, for a while at most: an agent that has just begun tells it next."""
        ...

    def require_owned(self) -> None:
        """Raises OwnershipLost where the agent's folder is not its own: what it said nobody would keep. Does not block."""
        ...

    def attempt(self, attempt: AttemptId) -> AttemptNow | None:
        """What it does now; None where the agent has no such attempt. Does not block."""
        ...

    def places(self, attempt: AttemptId, spec: JobSpec) -> Places:
        """Where it works and writes, whether or not it has begun. Does not block."""
        ...

    async def suspend(self, attempt: AttemptId, *, uid: int) -> None:
        """Freeze it; once it stands still. Already frozen is fine."""
        ...

    async def resume(self, attempt: AttemptId, *, uid: int) -> None:
        """Undo `suspend`."""
        ...

    async def drain(self, why: str, *, uid: int) -> bool:
        """The operator's drain, durable. False: it was drained by the operator before; the reason is the new one."""
        ...

    async def undrain(self, *, uid: int) -> bool:
        """Lift it. False: there was none."""
        ...

    def drains(self, *, sees_all: bool) -> tuple[DrainView, ...]:
        """Why the node starts nothing new; none where it does. `sees_all` as for `status`. Does not block."""
        ...

    def status(self, *, sees_all: bool) -> NodeStatus:
        """How the node is; all that is held, whoever's. Does not block.

        Without `sees_all`, drains and problems are told by what of them concerns the node: no attempt and no process is named.
        """
        ...

    async def alloc(self, request: ResourceRequest, *, uid: int) -> Reservation:
        """Reserve that now. Raises Busy where it is not free or a job waits, which comes first; Unsupported where it never is."""
        ...

    async def release(self, attempt: AttemptId) -> None:
        """Give a bare reservation back. Done already is fine."""
        ...
