"""Assembling a tree from rows, and drawing it."""

from __future__ import annotations

import pytest

from spurproc.command_line.render import rendered
from spurproc.core.tree.process_walk import ProcessRow
from spurproc.inspect.tree_members import Escape, Member, Way, below, ordered
from spurproc.inspect.tree_usage import Usage, state_word
from spurproc.inspect.tree_view import Shown, tree_blocks, tree_fields


def row(pid: int, parent: int = 1, *, start: int = 0, state: str = "S", ended: bool = False) -> ProcessRow:
    return ProcessRow(pid, parent, 0, 0, state, start or pid, ended)


def member(row: ProcessRow, *ways: Way, escape: Escape | None = None, depth: int = 0) -> Member:
    return Member(row=row, ways=frozenset(ways or (Way.DESCENDANT,)), escape=escape, depth=depth)


def shown(one: Member, name: str = "name") -> Shown:
    return Shown(one, Usage(row=one.row, name=name, cpu_s=1.25, cpu_percent=12.34, rss_bytes=3 << 20))


def drawn(members: list[Member], *, omitted: int = 0, columns: int | None = None, name: str = "name") -> list[str]:
    blocks = tree_blocks([shown(one, name) for one in members], omitted)
    return rendered(blocks, terminal=columns is not None, columns=columns).splitlines()


def test_parents_stand_before_their_children() -> None:
    """The leader first, whatever its number; the older child before the younger; depths by the parents."""
    leader = member(row(50), Way.LEADER)
    found = [member(row(70, 60)), member(row(80, 50)), member(row(60, 50)), leader, member(row(10, 1, start=99), Way.CGROUP)]
    placed = [(one.row.pid, one.depth, one.escape) for one in ordered(found)]
    assert placed == [(50, 0, None), (60, 1, None), (70, 2, None), (80, 1, None), (10, 0, Escape.PARENT)]


def test_a_younger_parent_is_none() -> None:
    """The parent's number was given to somebody else while the walk went on."""
    stranger = member(row(50, start=200), Way.LEADER)
    placed = {one.row.pid: (one.depth, one.escape) for one in ordered([stranger, member(row(60, 50, start=100))])}
    assert placed == {50: (0, None), 60: (0, Escape.PARENT)}


def test_of_two_with_one_number_the_younger_is_shown() -> None:
    assert [one.row.start_ticks for one in ordered([member(row(5, start=9)), member(row(5, start=7))])] == [9]


def test_a_ring_of_parents_ends() -> None:
    """No kernel shows one, a torn walk may: nobody is drawn twice, and the drawing ends."""
    found = ordered([member(row(5, 6, start=1)), member(row(6, 5, start=1)), member(row(7, 7))])
    assert sorted(one.row.pid for one in found) == [5, 6, 7]


def test_below_follows_no_stranger() -> None:
    """Of pid 1 the walk shows children; a reading of pid 1 with another start is not its own."""
    walk = {one.pid: one for one in (row(2_000_001, 1, start=10**12), row(2_000_002, 2_000_001, start=10**12))}
    assert list(below([row(1, 0, start=10**11)], walk)) == []
    assert [one.pid for one in below([row(2_000_001, 1, start=10**12)], walk)] == [2_000_002]


def test_states_in_words() -> None:
    words = {state: state_word(row(1, state=state)) for state in "RSDTtI"}
    assert words == {"R": "running", "S": "sleeping", "D": "blocked", "T": "stopped", "t": "traced", "I": "idle"}
    assert state_word(row(1, state="Z", ended=True)) == "zombie"
    assert state_word(row(1, state="Z")) == "main ended"


def test_eighty_columns_hold_a_deep_tree_and_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut on a terminal of 80 columns: a long name is folded."""
    monkeypatch.setenv("TERM", "dumb")
    name = "x" * 300
    lines = drawn([member(row(4_194_304 - depth), depth=depth) for depth in range(40)], columns=80, name=name)
    assert max(map(len, lines)) <= 80
    assert sum(line.count("x") for line in lines) == 40 * 300
    assert any("[39]" in line for line in lines)


def test_piped_it_is_plain_ascii_in_one_line_each() -> None:
    """No colour, no box, no line of a name's own making."""
    hostile = "\x1b[31mred\nnext\u202e\udcff"
    lines = drawn([member(row(5), Way.LEADER), member(row(6, 5), depth=1)], omitted=7, name=hostile)
    assert lines[0].split() == ["PID", "STATE", "CPU", "s", "CPU", "%", "RSS", "MiB", "NAME"]
    assert lines[1].endswith(r"\x1b[31mred\nnext\u202e\xff")
    assert "  `- \\x1b" in lines[2]
    assert lines[3:] == ["", "... 7 more"]
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_escapes_are_marked() -> None:
    out, orphan = member(row(6), escape=Escape.CGROUP), member(row(7), escape=Escape.PARENT)
    lines = drawn([out, orphan])
    assert lines[1].endswith("name (escaped: outside of the cgroup)")
    assert lines[2].endswith("name (re-parented to 1)")
    assert [one["escaped"] for one in tree_fields([shown(out), shown(orphan)])] == ["outside-cgroup", "re-parented"]


def test_one_that_went_away_while_it_was_read() -> None:
    """It is shown as gone, and nothing is said of it that was read of nobody."""
    gone = Shown(member(row(5)), None)
    assert not gone.alive
    assert rendered(tree_blocks([gone], 0), terminal=False).splitlines()[1].split() == ["5", "gone", "-", "-", "-", "-"]
    fields = tree_fields([gone])[0]
    assert (fields["state"], fields["name"], fields["cpu_s"], fields["rss_bytes"]) == ("gone", None, None, None)
