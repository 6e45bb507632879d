"""Answers as text: nothing is cut, nothing is wider than the terminal, and nothing from outside gets through as it is."""

from __future__ import annotations

import pytest

from spurproc.command_line.answer import Block, Facts, Grid, Line, Toned
from spurproc.command_line.render import rendered
from tests.inspect_program import plain, words

LONG = "/sys/fs/cgroup/" + "nested/" * 30
SENTENCE = "a sentence of many words that has to be broken somewhere, since no terminal is as wide as that"
BLOCKS: list[Block] = [
    Line(Toned("Title", "title")),
    Line(SENTENCE),
    Facts([("name", "value"), ("path", LONG), ("why", Toned(SENTENCE, "bad")), ("[bold]no markup[/]", ":smile:")]),
    Grid(("PID", "STATE", "NAME"), [("1", "S", LONG), ("22222", Toned("D", "weak"), SENTENCE)], numbers=frozenset((0,))),
]


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_a_terminal_gets_all_within_its_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = rendered(BLOCKS, terminal=True, columns=columns)
    assert "\x1b[" in text
    assert max(map(len, plain(text).splitlines())) <= columns
    piped = rendered(BLOCKS, terminal=False)
    assert sorted(words(text)) == sorted(words(piped))


def test_piped_facts_are_whole_lines() -> None:
    lines = rendered(BLOCKS, terminal=False).splitlines()
    assert lines[:3] == ["Title", SENTENCE, ""]
    assert f"path                {LONG}" in lines
    assert "[bold]no markup[/]  :smile:" in lines
    assert lines[-3:] == ["  PID  STATE  NAME", f"    1  S      {LONG}", f"22222  D      {SENTENCE}"]
    assert not any(line != line.rstrip() or "\x1b" in line for line in lines)


@pytest.mark.parametrize("terminal", [False, True])
def test_names_are_escaped_everywhere(terminal: bool) -> None:
    bad = "\x1b]0;x\x07\n\udcff"
    blocks: list[Block] = [Line(bad), Line(Toned(bad, "good")), Facts([(bad, bad)]), Grid(("A",), [(bad,), (Toned(bad, "bad"),)])]
    text = rendered(blocks, terminal=terminal, columns=80)
    assert plain(text).count(r"\x1b]0;x\x07\n\xff") == 6
    assert "\x1b]" not in text
    assert "\x07" not in text
    text.encode()
