"""What is made durable, and when: three writes before `start`, then one for each obligation, each before the next act."""

from __future__ import annotations

import pytest

from spurproc.stepd.table import Effect
from tests.crash.conductor import Stand
from tests.crash.points import LAUNCHER, SUPERVISOR
from tests.crash.theatre import Theatre

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]

OBLIGATIONS = (
    Effect.RECORD_HOOK_BEGUN,
    Effect.RECORD_HOOK_COMPLETED,
    Effect.RECORD_EXIT_OBSERVED,
    Effect.RECORD_ACKNOWLEDGED,
)
APPENDED = (Effect.RECORD_GATE_OPENING, Effect.RECORD_LAUNCHED, Effect.RECORD_TERMINATING, Effect.RECORD_EMPTIED)
"""Of this boot alone, or to be asked again."""


def syncs(trace: list[Stand]) -> list[Stand]:
    return [stand for stand in trace if stand.kind == "write" and stand.place.point.endswith(("fsync", "fdatasync"))]


def place_of(trace: list[Stand], role: str, when: str, point: str) -> int:
    return next(
        at for at, stand in enumerate(trace) if (stand.place.role, stand.place.when, stand.place.point) == (role, when, point)
    )


def test_three_writes_are_durable_before_start(theatre: Theatre) -> None:
    """The launch record, the folder that holds it, the folder above. The supervisor adds none to them."""
    trace = theatre.traces()["plain"]
    before = trace[: place_of(trace, SUPERVISOR, "before", Effect.SPAWN_LEADER.value)]
    assert [stand.place.point for stand in syncs(before)] == ["_write_launch:fsync", "_write_launch:fsync", "sync_above:fsync"]
    start = place_of(trace, LAUNCHER, "before", "client.launch._start")
    assert len(syncs(trace[:start])) == 3


@pytest.mark.parametrize("scene", ["plain", "hooks", "hooks fail", "terminated", "extern"])
def test_one_write_is_durable_for_each_obligation(theatre: Theatre, scene: str) -> None:
    trace = theatre.traces()[scene]
    mine = [stand for stand in trace if stand.place.role == SUPERVISOR]
    done = [stand.place.point for stand in mine if stand.place.when == "after" and stand.kind == "act"]
    owed = [point for point in done if point in {effect.value for effect in OBLIGATIONS}]
    assert [stand.place.act for stand in syncs(mine)] == owed


@pytest.mark.parametrize("scene", ["never told to start", "ended before its start"])
def test_the_end_of_a_step_that_nobody_started_makes_its_name_durable_first(theatre: Theatre, scene: str) -> None:
    """Its launcher may have been killed before it did."""
    mine = [stand for stand in theatre.traces()[scene] if stand.place.role == SUPERVISOR]
    within = [stand.place.point for stand in syncs(mine) if stand.place.act == Effect.RECORD_EXIT_OBSERVED.value]
    assert within == ["sync_above:fsync", "append:fdatasync"]


@pytest.mark.parametrize("scene", ["hooks", "hooks fail", "terminated", "held and killed", "succeeded", "no program"])
def test_a_record_is_durable_before_the_next_act(theatre: Theatre, scene: str) -> None:
    """Written, then synced, and only then is the effect over."""
    trace = [stand for stand in theatre.traces()[scene] if stand.place.role == SUPERVISOR]
    for effect in (*OBLIGATIONS, *APPENDED):
        within = [stand.place.point for stand in trace if stand.place.act == effect.value and stand.kind == "write"]
        whole = ["_write_whole:write", "append:fdatasync"] if effect in OBLIGATIONS else ["_write_whole:write"]
        assert within == whole * (len(within) // len(whole)), effect
