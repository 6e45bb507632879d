"""The page of the supervisor's table is made from the table; the guarantees of a step name tests that are there."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from spurproc.proto.step_state import StepState
from spurproc.stepd.table import REQUESTS, TABLE, StepEvent
from tests.meta.repository import ROOT

PAGE = ROOT / "docs/reference/supervisor.md"
LIFE = ROOT / "docs/explanation/step-life.md"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The extension that draws the table."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    yield import_module("supervisor_table")
    for name in ("supervisor_table", "state_table"):
        sys.modules.pop(name, None)


def test_the_page_is_drawn() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ("states", "requests", "moves"):
        assert f"```{{supervisor-{name}}}\n```" in text


def test_every_state_is_in_the_picture_and_every_move_in_the_list(drawn: ModuleType) -> None:
    picture, moves = drawn.DRAWN.picture(), drawn.DRAWN.moves_text()
    for state in StepState:
        assert f">{state.value}</text>" in picture
        for event in StepEvent:
            for answer in drawn.DRAWN.moves_from(state, event):
                assert all(effect.value in moves for effect in answer.effects)
    assert picture.count('<path d="M') == len(drawn.DRAWN.edges()) + 1, "and the tip of the arrows"


def test_a_move_that_depends_on_the_step_says_on_what(drawn: ModuleType) -> None:
    conditions = drawn.DRAWN.moves_from(StepState.READY, StepEvent.START).values()
    assert len(set(conditions)) == 3
    assert "with a prolog" in " ".join(conditions)


def test_the_requests_are_those_of_the_table(drawn: ModuleType) -> None:
    rows = {line.split("|")[1].strip(): line.split("|")[2].split(",") for line in drawn.requests_text().splitlines()[2:]}
    assert set(rows) == {event.value for event in REQUESTS}
    for event in REQUESTS:
        taken = [state.value for state in StepState if TABLE[state, event] is not None]
        assert [name.strip() for name in rows[event.value]] == taken


def test_every_state_is_explained() -> None:
    text = LIFE.read_text(encoding="utf-8")
    for state in StepState:
        assert f"**{state.value}**" in text, state


def test_each_guarantee_names_a_test_that_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", LIFE.read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"
