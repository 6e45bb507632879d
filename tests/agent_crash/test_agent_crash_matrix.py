"""The crash matrix of the agent: places x before and after x who is killed with it. Then another is started, and all is judged.

A run of all suites plays each effect and each commit once; one that names tests/agent_crash, as `make crash` does, plays all.
SPURPROC_TEST_CELLS='suspended;before LAUNCH' plays those alone that have such words in their names; `some`: what all suites play.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent_crash.matrix import VICTIMS, Plays, all_cells, some_cells

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

ONLY = os.environ.get("SPURPROC_TEST_CELLS", "")
IN_PART = ONLY == "some"


@pytest.mark.parametrize("victims", VICTIMS, ids=lambda victims: "+".join(("agent", *victims)))
def test_struck(tmp_path: Path, pytestconfig: pytest.Config, victims: tuple[str, ...]) -> None:
    """No job and no hook twice, no end lost, nothing given away twice, nobody else touched, nothing left."""
    in_part = IN_PART or pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS
    cells = [
        cell
        for cell in (some_cells if in_part else all_cells)(victims)
        if IN_PART or any(words in str(cell) for words in ONLY.split(";"))
    ]
    plays = Plays(tmp_path)
    plays.run(cells)
    print(f"{len(plays.played)} cells, {len(plays.played) - len(plays.wrong)} held")
    assert not plays.wrong, "\n".join(map(str, plays.wrong))
