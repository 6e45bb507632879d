"""Draws the agent's table of attempts from the code, as `supervisor_table` does that of a supervisor.

`{attempt-states}` is the picture, `{attempt-moves}` the list of what happens in each state.
"""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from supervisor_table import draw

from spurproc.agent.attempts.table import TABLE, AttemptEvent, Facts, Move, move
from spurproc.agent.store.attempt_row import AttemptState

FACTS = [Facts(**dict(zip([field.name for field in fields(Facts)], values, strict=True))) for values in
         itertools.product((True, False), repeat=len(fields(Facts)))]  # fmt: skip
_WORDS = {
    "has_prolog": ("with a prolog", "without a prolog"),
    "has_epilog": ("with an epilog", "without an epilog"),
    "has_step": ("of a job", "of a reservation"),
    "cancelled": ("to be ended", "not to be ended"),
    "reported": ("reported", "not reported"),
}


def moves_from(state: AttemptState, event: AttemptEvent) -> dict[Move, str]:
    """What an event leads to, each with what is so of such an attempt; nothing where it changes nothing."""
    answers = {facts: move(state, event, facts) for facts in FACTS}
    telling = {answer for answer in answers.values() if answer != Move(state)}
    return {answer: _condition([facts for facts in FACTS if answers[facts] == answer]) for answer in sorted(telling, key=repr)}


def _condition(holding: list[Facts]) -> str:
    """What they have in common, and others have not."""
    words = []
    for name, (yes, no) in _WORDS.items():
        values = {getattr(facts, name) for facts in holding}
        if len(values) == 1:
            words.append(yes if values.pop() else no)
    return ", ".join(words)


def picture() -> str:
    """The states from top to bottom, and what leads where."""
    edges: dict[tuple[AttemptState, AttemptState], list[str]] = {}
    for state, event in TABLE:
        for answer in moves_from(state, event):
            if answer.state is not state:
                edges.setdefault((state, answer.state), []).append(event.value)
    places = {state: place for place, state in enumerate(AttemptState)}
    arrows = [(places[start], places[end], list(dict.fromkeys(events))) for (start, end), events in edges.items()]
    return draw("states of an attempt", [state.value for state in AttemptState], arrows)


def moves_text() -> str:
    """A table for each state: event, of which attempt, next state, effects."""
    parts = []
    for state in AttemptState:
        rows = [
            f"| {event.value} | {condition} | {answer.state.value} | {'; '.join(effect.value for effect in answer.effects)} |"
            for event in AttemptEvent
            for answer, condition in moves_from(state, event).items()
        ]
        parts.append(f"**{state.value}**\n\n| event | of an attempt | next | effects |\n|---|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


class _Picture(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", picture(), format="html")]


class _Moves(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(moves_text())


def setup(app: Sphinx) -> dict[str, Any]:
    """Make both directives known."""
    app.add_directive("attempt-states", _Picture)
    app.add_directive("attempt-moves", _Moves)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
