"""What the crash matrix shares, and the table that it prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.crash import reach
from tests.crash.matrix import FAULTS, VICTIMS, Played, Tally
from tests.crash.rows import ROWS
from tests.crash.theatre import Theatre

_MEMORY = "/dev/shm"
_TALLY = pytest.StashKey[Tally]()


@pytest.fixture(scope="package")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """The processes that stand for all tests here, and what each scene passes undisturbed. No test elsewhere is to meet them."""
    made = Theatre(tmp_path_factory.mktemp("crash"))
    try:
        made.traces()
        yield made
    finally:
        made.close()


@pytest.fixture
def stage_path(tmp_path: Path) -> Iterator[Path]:
    """In memory, where that can be had: what no power cut takes is not worth a disk's time."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="spurproc-crash-", dir=_MEMORY) as path:
        yield Path(path)


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Tally:
    """One cell of each test is enough in a run of all suites, which nobody has told to run this one."""
    in_part = pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS
    return pytestconfig.stash.setdefault(_TALLY, Tally(in_part=in_part))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each row and set of victims: how many cells of each fault held, or why there is none."""
    tally = config.stash.get(_TALLY, None)
    if tally is None:
        return
    terminalreporter.section("crash matrix: cells that held, of those played")
    terminalreporter.line(f"{'row':>3}  {'victims':28}" + "".join(f"{fault:>14}" for fault in FAULTS))
    for row in ROWS:
        for victims in VICTIMS:
            told = [_told(tally.played.get((row, victims, fault)), row, victims, fault) for fault in FAULTS]
            if any(told):
                terminalreporter.line(f"{row:>3}  {'+'.join(victims):28}" + "".join(f"{each:>14}" for each in told))
    played = [each for cells in tally.played.values() for each in cells]
    terminalreporter.line(f"{len(played)} cells, {sum(not each.wrong for each in played)} held; -: see tests/crash/reach.py")


def _told(played: list[Played] | None, row: int, victims: tuple[str, ...], fault: str) -> str:
    if played is None:
        return ""
    held = sum(not each.wrong for each in played)
    return f"{held}/{len(played)}" if played else "-" if reach.why_empty(row, victims, fault) else "none"
