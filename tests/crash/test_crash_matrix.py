"""The crash matrix: rows of the protocol x victims x faults. After each strike a fresh client looks what is left.

A run of all suites plays one cell for each of these; one that names tests/crash, as `make crash` does, plays all.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash import reach
from tests.crash.matrix import FAULTS, SIGKILL, VICTIMS, Played, Tally, cells, play
from tests.crash.rows import ROWS
from tests.crash.theatre import Theatre, clear

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]

EVERYWHERE = "SPURPROC_TEST_CRASH_EVERYWHERE" in os.environ
"""`make crash`: each place in every scene, each time; else each place once."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
@pytest.mark.parametrize("row", ROWS, ids="row{}".format)
def test_struck(theatre: Theatre, stage_path: Path, row: int, victims: tuple[str, ...], fault: str, tally: Tally) -> None:
    state = stage_path / "state"
    played: list[Played] = []
    found = cells(theatre, row, victims, fault, everywhere=EVERYWHERE)
    if tally.in_part and found:  # another place with each set of victims and each fault
        found = [found[(VICTIMS.index(victims) * len(FAULTS) + FAULTS.index(fault)) % len(found)]]
    try:
        for cell in found:
            played.append(play(theatre, state, cell))
            if played[-1].wrong:
                clear(theatre, state, by_force=True)
                break
    finally:
        tally.played[row, victims, fault] = played
        clear(theatre, state, by_force=False)
    assert bool(played) is not bool(reach.why_empty(row, victims, fault))
    wrong = "\n".join(str(each) for each in played if each.wrong)
    assert not wrong, wrong
    if not tally.in_part:
        check_killed(row, victims, fault, played)


def check_killed(row: int, victims: tuple[str, ...], fault: str, played: list[Played]) -> None:
    """Whoever was to be killed was there at one place of the row at least."""
    spared = set(victims).difference(*(each.killed for each in played))
    if fault == SIGKILL:
        assert spared == {role for role in victims if (row, role) in reach.ABSENT}
