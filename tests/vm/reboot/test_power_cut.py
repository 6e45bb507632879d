"""The boot after the power was cut behind `scene`: nothing lives, ends are kept or UNKNOWN, and what is owed is done, once."""

from __future__ import annotations

from spurproc import ExitInfo, ExitKind, RuntimeId, StepState
from tests.steps import Steps
from tests.vm.reboot.next_boot import (
    completed,
    ends_stay_and_all_of_it_goes,
    found,
    hooks_have_run_once,
    nothing_lives,
    were_waited_for,
)
from tests.vm.reboot.scene import EMPTYING, ENDED, EXTERN, IN_EPILOG, IN_PROLOG, RUNNING, UNACKNOWLEDGED

RESTARTED = "the machine was restarted before the end was recorded"
KEPT = {ENDED: (3, None), UNACKNOWLEDGED: (None, 9), EMPTYING: (5, None), IN_EPILOG: (7, None)}
"""Ends that were recorded before: code and signal."""
LOST = (RUNNING, IN_PROLOG, EXTERN)


def test_all_of_it_is_told_and_done_and_gone(steps: Steps) -> None:
    """One after the other, for each is what the one before has made of it."""
    nothing_lives()
    assert found()[EMPTYING].status().state is not StepState.COMPLETED, "its epilog is owed"
    ends = completed()
    ends_are_kept_or_unknown(ends)
    hooks_have_run_once()
    ends_stay_and_all_of_it_goes(ends)


def ends_are_kept_or_unknown(ends: dict[RuntimeId, ExitInfo]) -> None:
    were_waited_for(ends, KEPT)
    for runtime_id in LOST:
        assert (ends[runtime_id].kind, ends[runtime_id].reason) == (ExitKind.UNKNOWN, RESTARTED), runtime_id
