"""What is seen of the steps of `scene` in the boot after it, however that was brought about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from spurproc import ExitInfo, ExitSource, Liveness, RuntimeId, Step, adopt, gc
from tests.steps import WAIT_S
from tests.vm.reboot.scene import EMPTYING, ENDED, EXTERN, HOOKS, IN_EPILOG, IN_PROLOG, RUNNING, STATE, UNACKNOWLEDGED

BEFORE = [f"epilog {ENDED}", f"prolog {IN_PROLOG}", f"epilog {IN_EPILOG}"]
"""Hooks that had begun before."""
OWED = [f"epilog {runtime_id}" for runtime_id in (RUNNING, EMPTYING, IN_PROLOG)]


def found() -> dict[RuntimeId, Step]:
    """All of them can be used."""
    adoption = adopt(STATE)
    assert adoption.refused == ()
    return {step.runtime_id: step for step in adoption.steps}


def nothing_lives() -> None:
    """Without a host, from the records alone; also of those that say what ran in the boot before."""
    by_id = found()
    assert list(by_id) == [ENDED, UNACKNOWLEDGED, RUNNING, EMPTYING, IN_PROLOG, IN_EPILOG, EXTERN]
    for step in by_id.values():
        status = step.status()
        assert (status.supervised, status.liveness.liveness) == (False, Liveness.GONE), step
    assert by_id[ENDED].status().acknowledged


def completed() -> dict[RuntimeId, ExitInfo]:
    """Their ends, once nothing is owed any more."""
    return {runtime_id: step.wait(WAIT_S, completed=True) for runtime_id, step in found().items()}


def were_waited_for(ends: dict[RuntimeId, ExitInfo], seen: Mapping[RuntimeId, tuple[int | None, int | None]]) -> None:
    """These have ended so, by code or signal, and somebody saw it."""
    for runtime_id, (code, number) in seen.items():
        end = ends[runtime_id]
        assert (end.code, end.signal, end.source) == (code, number, ExitSource.WAITED), runtime_id


def hooks_have_run_once() -> None:
    """Those that had begun before are not run again, whatever they had done by then; what was owed is done."""
    said = HOOKS.read_text().splitlines()
    assert said[: len(BEFORE)] == BEFORE
    assert Counter(said[len(BEFORE) :]) == Counter(OWED)


def ends_stay_and_all_of_it_goes(ends: dict[RuntimeId, ExitInfo]) -> None:
    """They can be acknowledged, and removed."""
    for runtime_id, step in found().items():
        assert step.wait(WAIT_S, completed=True) == ends[runtime_id]
        step.acknowledge()
    report = gc(STATE)
    assert (sorted(report.removed), report.kept) == (sorted(ends), ())
    assert found() == {}
