"""Two thousand steps in a row: their host, who launches them, and the machine hold no more at the end than after the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.growth import Held, lasting_host, row
from tests.steps import Gate, Steps

FIRST, COUNT = 200, 2000
GROWTH_KIB = 128


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """They and their host are gone when the test is over."""
    with Steps(tmp_path / "state") as made:
        yield made


def test_two_thousand_in_a_row_leave_no_growth(steps: Steps, tmp_path: Path) -> None:
    """Descriptors, cgroups and files are as many as after the first 200; of memory, a hundred bytes a step would be seen."""
    with lasting_host(steps, Gate(tmp_path / "gate")) as host:
        row(steps, FIRST)
        before = Held.now(steps, host)
        for _ in range(COUNT // FIRST - 1):
            row(steps, FIRST)
        after = Held.now(steps, host)
    print(f"after {FIRST}: {before}\nafter {COUNT}: {after}")
    after.assert_no_more_than(before, GROWTH_KIB)
