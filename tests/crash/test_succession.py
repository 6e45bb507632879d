"""What a step owes is seen to by its host, whether anybody asks or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.conductor import Stand
from tests.crash.points import SUPERVISOR
from tests.crash.scenes import SCENES, WITHIN_S
from tests.crash.theatre import Run, Theatre, clear, struck_by_plan

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]


def test_an_epilog_runs_although_there_was_no_room_for_a_successor(theatre: Theatre, stage_path: Path) -> None:
    """Supervisor and launcher are killed; the host has no descriptor left for another supervisor, twice; and nobody asks."""
    run = Run(theatre, replace(SCENES["succeeded"], blow="kill launcher+supervisor"), stage_path / "state")
    refused = 0

    def rule(stand: Stand) -> str:
        nonlocal refused
        if (
            stand.step == run.step
            and (stand.place.point, stand.place.when) == ("Host._fork", "before")
            and stand.place.nth in (2, 3)
        ):
            refused += 1
            return "nofile"
        return "go"

    with run.played(struck_by_plan(run, rule)):
        marks = run.stage.folder / "marks"
        assert theatre.conductor.until(lambda: marks.exists() and "epilog" in marks.read_text(), WITHIN_S), run.trail()
        assert refused == 2
        assert theatre.conductor.until(lambda: not theatre.conductor.living(SUPERVISOR, run.step), WITHIN_S)
    clear(theatre, run.stage.state, by_force=False)
