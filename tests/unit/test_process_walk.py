"""Descent, from rows that a walk could have read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spurproc.core.tree.process_walk import ProcessRow, descendants, unique


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
