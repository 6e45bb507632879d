"""Descent, from rows that a walk could have read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core.tree import process_walk
from spurproc.core.tree.process_walk import Descent, ProcessRow, descendants, unique


def _row(pid: int, parent_pid: int, start_ticks: int = 100) -> ProcessRow:
    return ProcessRow(pid=pid, parent_pid=parent_pid, process_group=1, session=1, state="S", start_ticks=start_ticks, ended=False)


def _below(rows: list[ProcessRow], root: int) -> set[int]:
    by_pid = {row.pid: row for row in rows}
    return {row.pid for row in descendants(by_pid, by_pid[root])}


def test_all_below_and_nobody_beside() -> None:
    rows = [_row(10, 1), _row(11, 10), _row(12, 11), _row(13, 1), _row(14, 13)]
    assert _below(rows, 10) == {11, 12}


def test_child_older_than_its_parent_is_a_strangers() -> None:
    """Its parent ended during the walk, and a descendant of ours got the number."""
    rows = [_row(10, 1, 100), _row(11, 10, 500), _row(12, 11, 300)]
    assert _below(rows, 10) == {11}


def _descent(monkeypatch: pytest.MonkeyPatch, rows: list[ProcessRow], after: list[ProcessRow]) -> list[int]:
    """Whom a walk that reads `rows` finds below 10, where a second look sees `after`."""
    monkeypatch.setattr(process_walk, "read_processes", lambda: {row.pid: row for row in rows})
    monkeypatch.setattr(process_walk, "read_process", {row.pid: row for row in after}.get)
    monkeypatch.setattr(Descent, "root_lives", lambda _: True)
    monkeypatch.setattr(process_walk, "number_here", lambda *_: 10)
    return [row.pid for row in Descent(None).find()]  # type: ignore[arg-type]  # only its number is asked for


def test_child_of_who_has_got_a_number_of_ours_is_a_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """11 was read as ours, ended, and its number went to a stranger, whose child 12 was read last: newer than both."""
    rows = [_row(10, 1, 100), _row(11, 10, 200), _row(12, 11, 400), _row(13, 10, 200), _row(14, 13, 300)]
    assert _descent(monkeypatch, rows, [*rows, _row(11, 1, 300)]) == [13, 14]


@pytest.mark.parametrize(("parent", "found"), [(1, [11, 13]), (10, [11, 13, 12]), (13, [11, 13, 12])])
def test_child_of_a_number_that_is_nobodys_by_now_is_ours_if_it_was_handed_on_to_us(
    monkeypatch: pytest.MonkeyPatch, parent: int, found: list[int]
) -> None:
    """Between the looks 11 has ended, and perhaps a stranger with its number as well: 12 went to who takes in the orphans."""
    rows = [_row(10, 1, 100), _row(11, 10, 200), _row(12, 11, 400), _row(13, 10, 200)]
    after = [_row(10, 1, 100), _row(12, parent, 400), _row(13, 10, 200)]
    assert sorted(_descent(monkeypatch, rows, after)) == sorted(found)


@given(st.dictionaries(st.integers(2, 30), st.tuples(st.integers(0, 30), st.integers(0, 3)), min_size=1))
def test_any_snapshot_ends(parents: dict[int, tuple[int, int]]) -> None:
    """A torn walk may show a loop; each process is found at most once, and never the root."""
    rows = {pid: _row(pid, parent, ticks) for pid, (parent, ticks) in parents.items()}
    for root in rows.values():
        found = [row.pid for row in descendants(rows, root)]
        assert len(found) == len(set(found))
        assert root.pid not in found


def test_unique_keeps_two_processes_of_one_number() -> None:
    assert unique([_row(5, 1, 7), _row(4, 1), _row(5, 1, 7), _row(5, 1, 8)]) == [_row(4, 1), _row(5, 1, 7), _row(5, 1, 8)]
