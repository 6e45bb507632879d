"""The page of the agent's table of attempts is made from the table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.store.attempt_row import AttemptState
from tests.meta.repository import ROOT


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The extension that draws the table."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    yield import_module("attempt_table")
    for name in ("attempt_table", "state_table"):
        sys.modules.pop(name, None)


def test_the_page_is_drawn() -> None:
    text = (ROOT / "docs/reference/attempts.md").read_text(encoding="utf-8")
    for name in ("states", "moves"):
        assert f"```{{attempt-{name}}}\n```" in text


def test_every_state_is_in_the_picture_and_every_move_in_the_list(drawn: ModuleType) -> None:
    picture, moves = drawn.DRAWN.picture(), drawn.DRAWN.moves_text()
    for state in AttemptState:
        assert f">{state.value}</text>" in picture
        assert f"**{state.value}**" in moves
        for event in AttemptEvent:
            for answer in drawn.DRAWN.moves_from(state, event):
                assert all(effect.value in moves for effect in answer.effects)


def test_a_move_that_depends_on_the_attempt_says_on_what(drawn: ModuleType) -> None:
    conditions = set(drawn.DRAWN.moves_from(AttemptState.ACCEPTED, AttemptEvent.BEGIN).values())
    assert len(conditions) == 5
    assert "with a prolog, not to be ended" in conditions
