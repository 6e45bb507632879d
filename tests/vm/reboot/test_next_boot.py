"""The boot after the power was cut behind `scene`: nothing lives, ends are kept or UNKNOWN, and what is owed is done, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spurproc import ExitInfo, ExitKind, ExitSource, Liveness, RuntimeId, Step, StepState, adopt, gc
from tests.steps import WAIT_S, Steps
from tests.vm.reboot.scene import (
    EMPTYING,
    ENDED,
    EXTERN,
    HOOKS,
    IN_EPILOG,
    IN_PROLOG,
    RUNNING,
    STATE,
    UNACKNOWLEDGED,
)

RESTARTED = "the machine was restarted before the end was recorded"
KEPT = {ENDED: (3, None), UNACKNOWLEDGED: (None, 9), EMPTYING: (5, None), IN_EPILOG: (7, None)}
"""Ends that were recorded before: code and signal."""
LOST = (RUNNING, IN_PROLOG, EXTERN)
OWED = (RUNNING, EMPTYING, IN_PROLOG)
"""Their epilogs had not begun."""


@pytest.fixture
def steps() -> Iterator[Steps]:
    """Those of the boot before."""
    made = Steps(STATE)
    yield made
    made.end_all()


def found() -> dict[RuntimeId, Step]:
    adoption = adopt(STATE)
    assert adoption.refused == ()
    return {step.runtime_id: step for step in adoption.steps}


def test_all_of_it_is_told_and_done_and_gone(steps: Steps) -> None:
    """One after the other, for each is what the one before has made of it."""
    nothing_lives()
    ends = {runtime_id: step.wait(WAIT_S, completed=True) for runtime_id, step in found().items()}
    ends_are_kept_or_unknown(ends)
    hooks_have_run_once()
    ends_stay_and_all_of_it_goes(ends)


def nothing_lives() -> None:
    """Without a host, from the records alone; also of those that say what ran in the boot before."""
    by_id = found()
    assert list(by_id) == sorted([*KEPT, *LOST])
    for step in by_id.values():
        status = step.status()
        assert (status.supervised, status.liveness.liveness) == (False, Liveness.GONE), step
    assert by_id[ENDED].status().acknowledged
    assert by_id[EMPTYING].status().state is not StepState.COMPLETED, "its epilog is owed"


def ends_are_kept_or_unknown(ends: dict[RuntimeId, ExitInfo]) -> None:
    for runtime_id, (code, number) in KEPT.items():
        end = ends[runtime_id]
        assert (end.code, end.signal, end.source) == (code, number, ExitSource.WAITED), runtime_id
    for runtime_id in LOST:
        assert (ends[runtime_id].kind, ends[runtime_id].reason) == (ExitKind.UNKNOWN, RESTARTED), runtime_id


def hooks_have_run_once() -> None:
    """Those that had begun before are not run again, whatever they had done by then."""
    before = [f"epilog {ENDED}", f"prolog {IN_PROLOG}", f"epilog {IN_EPILOG}"]
    said = HOOKS.read_text().splitlines()
    assert said[: len(before)] == before
    assert sorted(said[len(before) :]) == sorted(f"epilog {runtime_id}" for runtime_id in OWED)


def ends_stay_and_all_of_it_goes(ends: dict[RuntimeId, ExitInfo]) -> None:
    for runtime_id, step in found().items():
        assert step.wait(WAIT_S, completed=True) == ends[runtime_id]
        step.acknowledge()
    report = gc(STATE)
    assert (sorted(report.removed), report.kept) == (sorted(ends), ())
    assert found() == {}
