"""At a start: what each attempt holds is its own again, and of two that cannot both be, one ends."""

from __future__ import annotations

from collections.abc import Iterable

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.table import LIVE
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.refusal import Conflict
from spurproc.proto.attempt_id import AttemptId

__all__ = ["displace", "restore"]


def restore(around: Surroundings, taken: Iterable[Attempt]) -> None:
    """Each exactly what it was given; of what two claim the earlier claim stands. What the node has not got stays missing."""
    for attempt in sorted(taken, key=lambda one: (one.accepted_at, one.id)):
        if attempt.allocation is None:
            attempt.has_claim = False
        elif attempt.has_claim:
            _restore_one(around, attempt, attempt.allocation)


def _restore_one(around: Surroundings, attempt: Attempt, allocation: Allocation) -> None:
    """Where another has a CPU or a GPU of it, it ends, and holds all that it uses until then. Any other runs on."""
    try:
        around.resources.restore(attempt.id, allocation)
    except Conflict as conflict:
        around.log.warning("its claim clashes", attempt=str(attempt.id), why=str(conflict))
        shared = around.resources.restore_beside(attempt.id, allocation)
        if shared and attempt.state in LIVE:
            attempt.node_fault = str(conflict)
            attempt.cancel = attempt.cancel or around.intent(str(conflict))


def displace(around: Surroundings, taken: Iterable[Attempt]) -> None:
    """Of one job the latest attempt that was begun counts; all before it end."""
    latest: dict[int, AttemptId] = {}
    for attempt in taken:
        latest[attempt.id.job_id] = max(attempt.id, latest.get(attempt.id.job_id, attempt.id))
    for attempt in taken:
        later = latest[attempt.id.job_id]
        if attempt.id != later:
            attempt.displaced_by = later
            if attempt.state in LIVE and attempt.cancel is None:
                around.log.warning("displaced", attempt=str(attempt.id), by=str(later))
                attempt.cancel = around.intent(f"attempt {later} has taken its place")
