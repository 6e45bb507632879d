"""One attempt in memory: where its life stands, and what has been found out about it."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from dataclasses import dataclass, field

from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.table import Facts
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store.attempt_row import AttemptRow, AttemptState, CancelIntent, Obligation
from spurproc.client.step import Step
from spurproc.core.exit_info import ExitInfo
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Attempt"]


@dataclass(slots=True, kw_only=True)
class Attempt:
    """Mutable, and changed on the event loop alone. `row`-like fields are as durable as the last `record` effect says."""

    id: AttemptId
    allocation: Allocation | None
    """None where nobody can tell what it was given: then it is never launched."""
    accepted_at: float
    uid: int
    state: AttemptState = AttemptState.ACCEPTED
    spec: JobSpec | None = None
    """Until it is launched; from then on it is read when it is needed."""
    is_reservation: bool = False
    has_row: bool = True
    """False of one that only its step folder tells of, which cannot be read: with its end it gets one."""
    has_claim: bool = True
    """Whether its allocation is claimed in the resource table."""
    begun: bool = False
    """Something of it may have run on this node: it owes the epilog."""
    prepared: bool = False
    """Its script and scratch folder are there."""
    cancel: CancelIntent | None = None
    was_to_end: bool = False
    """An agent before this one had that on record, and has begun it."""
    displaced_by: AttemptId | None = None
    given_up: bool = False
    """By its controller, which says so as long as it runs: nobody has to take its report."""
    step: Step | None = None
    turns: int = 0
    """How often somebody has begun or ended to suspend or resume it: what was looked at in between is old."""
    trace: Trace = field(default_factory=Trace)
    noted_not_enforced: tuple[str, ...] = ()
    """Of one that was over before this agent: its trace is not looked for any more."""
    held_because: str | None = None
    hook_failure: str = ""
    end: ExitInfo | None = None
    started_at: float | None = None
    node_fault: str | None = None
    reported: bool = False
    refusals: int = 0
    refused_because: str | None = None
    events: deque[AttemptEvent] = field(default_factory=deque)
    busy: bool = False
    waiting: list[Future[None]] = field(default_factory=list)
    """Those who want to know when all that has happened to it is recorded."""
    broken: bool = False
    """By a fault of ours: nothing more becomes of it in this life of the agent."""

    @classmethod
    def of_row(cls, row: AttemptRow) -> Attempt:
        """As the store has it, but for why it was held, which is seen anew. What the step folders say adds who reconciles."""
        return cls(
            id=row.attempt,
            allocation=row.allocation,
            accepted_at=row.accepted_at,
            uid=row.uid,
            state=row.state,
            has_claim=row.holds_resources,
            begun=True,
            cancel=row.cancel,
            was_to_end=row.cancel is not None,
            given_up=row.cancel is not None and row.cancel.given_up,
            end=row.end,
            started_at=row.started_at,
            node_fault=row.node_fault,
            noted_not_enforced=() if row.end is None else Trace(row.launched or b"").not_enforced,
            reported=Obligation.REPORT in row.outcomes,
            refusals=row.report_refusals,
            refused_because=row.report_refused_because,
        )

    def facts(self, *, has_prolog: bool, has_epilog: bool) -> Facts:
        """For the table, as they are now; the arguments say what the node is configured for."""
        return Facts(
            has_prolog=has_prolog and not self.is_reservation,
            has_epilog=has_epilog and not self.is_reservation and self.begun,
            has_step=not self.is_reservation,
            cancelled=self.cancel is not None,
            reported=self.reported,
        )

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """The files of the limits that it was to be held to, and is not."""
        return self.trace.not_enforced or self.noted_not_enforced

    @property
    def owes_a_refused_report(self) -> bool:
        """Whether that is all that it owes, and the controller will never take it."""
        return self.state is AttemptState.REPORTING and self.refused_because is not None

    def report(self) -> AttemptReport:
        """What the controller is told: the same words each time."""
        end = self.end or ExitInfo.unknown("its end is not recorded")
        return AttemptReport(
            attempt=self.id,
            end=end,
            cancelled=self.cancel is not None,
            node_fault=self.node_fault,
            started_at=self.started_at,
            ended_at=end.observed_at,
            not_enforced=self.not_enforced,
        )
