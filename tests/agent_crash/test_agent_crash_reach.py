"""The matrix leaves nothing out: each effect, commit and act has its scene, and each function that is struck by name is there."""

from __future__ import annotations

import pytest

from spurproc.agent.attempts.effect import Effect
from tests.agent_crash.matrix import VICTIMS, all_cells, some_cells
from tests.agent_crash.places import READS, all_places, bodies, commits, holder_of
from tests.agent_crash.scenes import SCENES


def test_each_place_is_struck_before_and_after() -> None:
    """An effect that the table gains has no scene yet, and fails here."""
    wanted = {(place, when) for place in all_places() for when in ("before", "after")}
    assert {(cell.place, cell.when) for cell in all_cells(())} == wanted


def test_each_body_of_a_transaction_is_a_place_or_writes_nothing() -> None:
    assert set(bodies()) >= READS
    assert not set(commits()) & READS


@pytest.mark.parametrize("place", sorted(place for place in all_places() if "." in place))
def test_a_place_is_a_function(place: str) -> None:
    holder, name = holder_of(place)
    assert callable(getattr(holder, name))


def test_a_scene_strikes_no_place_twice() -> None:
    assert [name for name, scene in SCENES.items() if len(set(scene.places)) < len(scene.places)] == []


def test_a_run_in_part_has_each_effect_and_commit() -> None:
    assert {cell.place for cell in some_cells(())} >= {*(effect.name for effect in Effect), *commits()}
    assert all(some_cells(victims) for victims in VICTIMS)
