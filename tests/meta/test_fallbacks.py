"""The table of fallbacks is held to the truth: a row for each facility, and for each row the test of its weaker answer."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from spurproc.core.facilities import _NEEDS, NAMES
from tests.meta.repository import ROOT

PAGE = ROOT / "docs/reference/fallbacks.md"
OTHERS = ("a sandbox that refuses these calls", "a writable cgroup")
"""What is no facility of `Facilities`, and falls back all the same."""
_HEADINGS = [
    "facility",
    "since",
    "what replaces it",
    "what stays the same",
    "what is weaker, and how the caller sees it",
    "test",
]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> dict[str, list[str]]:
    """The cells behind the first, by the first."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == _HEADINGS
    return {name.strip("`"): rest for name, *rest in cells[2:]}


def functions(file: str) -> set[str]:
    """The names of the tests in it."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_facility_has_a_row_and_every_row_a_facility() -> None:
    """In the order of the probe, none twice; the only list of fallbacks that there is."""
    assert sorted(rows()) == sorted([*NAMES, *OTHERS])


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_row_is_full_and_its_tests_exist(name: str) -> None:
    since, *told, tests = rows()[name]
    assert all(told)
    assert (re.fullmatch(r"\d\.\d+", since) is not None) == (name in NAMES)
    named = _TEST.findall(tests)
    assert len(named) >= 1
    assert [f"{file}::{test}" for file, test in named if test not in functions(file)] == []
    if name in NAMES:  # the one that asserts the weaker answer, in a plain run of the suite
        assert named[0] == ("tests/kernel/test_fallbacks.py", f"test_without_{name}")


def test_what_cannot_be_without_another_is_said() -> None:
    """Each pair of the probe stands in the sentence below the table, under what it needs."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split("Some cannot be without another:")[1].split())
    said = {part.split("`")[1]: set(part.split("`")[3::2]) for part in re.split(r"; |\. ", text) if part.startswith("without")}
    needed = {needed: {name for name, other in _NEEDS if other == needed} for _, needed in _NEEDS}
    assert {name: said[name] >= below for name, below in needed.items()} == dict.fromkeys(needed, True)


def test_skips_for_want_of_a_facility_know_the_same_pairs() -> None:
    """A strict run under a mask allows a skip only for what the mask takes away, itself or with it."""
    entries = tomllib.loads(Path(ROOT / "tests/allowed_skips.toml").read_text(encoding="utf-8"))["skip"]
    probe = next(entry["probe"] for entry in entries if entry["requirement"] == "needs_facility")
    allowed = set(re.findall(r'"(\w+) "\*,(\w+),\*', probe))
    assert allowed == closure()


def closure() -> set[tuple[str, str]]:
    """(facility, what it cannot be without, be it through another)."""
    pairs = set(_NEEDS)
    while more := {(name, deeper) for name, needed in pairs for other, deeper in pairs if other == needed} - pairs:
        pairs |= more
    return pairs
