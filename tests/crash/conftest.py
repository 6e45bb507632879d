"""What the crash matrix shares, and the table that it prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash import reach
from tests.crash.matrix import FAULTS, VICTIMS, Played
from tests.crash.rows import ROWS
from tests.crash.theatre import Theatre

_TABLE = pytest.StashKey[dict[object, list[Played]]]()


@pytest.fixture(scope="session")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """The processes that stand for the whole session, and what each scene passes undisturbed."""
    made = Theatre(tmp_path_factory.mktemp("crash"))
    try:
        made.traces()
        yield made
    finally:
        made.close()


@pytest.fixture
def crash_table(pytestconfig: pytest.Config) -> dict[object, list[Played]]:
    """What came of the cells, by row, victims and fault."""
    return pytestconfig.stash.setdefault(_TABLE, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each row and set of victims: how many cells of each fault held, or why there is none."""
    table = config.stash.get(_TABLE, {})
    if not table:
        return
    terminalreporter.section("crash matrix: cells that held, of those played")
    terminalreporter.line(f"{'row':>3}  {'victims':28}" + "".join(f"{fault:>14}" for fault in FAULTS))
    for row in ROWS:
        for victims in VICTIMS:
            told = [_told(table.get((row, victims, fault)), row, victims, fault) for fault in FAULTS]
            if any(told):
                terminalreporter.line(f"{row:>3}  {'+'.join(victims):28}" + "".join(f"{each:>14}" for each in told))
    played = [each for cells in table.values() for each in cells]
    terminalreporter.line(f"{len(played)} cells, {sum(not each.wrong for each in played)} held; -: see tests/crash/reach.py")


def _told(played: list[Played] | None, row: int, victims: tuple[str, ...], fault: str) -> str:
    if played is None:
        return ""
    held = sum(not each.wrong for each in played)
    return f"{held}/{len(played)}" if played else "-" if reach.why_empty(row, victims, fault) else "none"
