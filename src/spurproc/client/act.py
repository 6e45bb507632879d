"""What came of a request that acts on the processes of a step."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.core.cgroup.signal_report import Route, SignalReport
from spurproc.core.tree.termination import TerminationReport
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_state import StepState

__all__ = ["StepAct", "nobody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAct:
    """What was done to a step, and by whom.

    `supervised`: by its supervisor, whose state was `state` then. Else nobody supervised it, and this very process did it, by
    the cgroup and the leader that are on record: `state` is None. `signals`: what one signal reached. `termination`: how far a
    kill plan got, where this process walked it; a supervisor walks it after it has answered.
    """

    runtime_id: RuntimeId
    supervised: bool
    state: StepState | None = None
    signals: SignalReport | None = None
    termination: TerminationReport | None = None


def nobody(signal: int) -> SignalReport:
    """Nobody was there to take it, which is success."""
    return SignalReport(signal=int(signal), route=Route.NOBODY, signalled=0, refused=(), passes=1, complete=True)
