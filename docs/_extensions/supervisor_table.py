"""Draws the supervisor's table from the code: as a picture of its states, and as the list of what happens in each.

`{supervisor-states}` is the picture, `{supervisor-moves}` the list, `{supervisor-requests}` which request is taken where. None of
it is written by hand, so none of it can differ from what a supervisor does.
"""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from spurproc.proto.step_state import StepState
from spurproc.stepd.table import REQUESTS, TABLE, Facts, Move, StepEvent, move

FACTS = [Facts(**dict(zip([field.name for field in fields(Facts)], values, strict=True))) for values in
         itertools.product((True, False), repeat=len(fields(Facts)))]  # fmt: skip
_WORDS = {
    "has_leader": ("with a leader", "without a leader"),
    "has_prolog": ("with a prolog", "without a prolog"),
    "has_epilog": ("with an epilog", "without an epilog"),
    "prolog_left": ("a prolog was left behind", ""),
}
_WIDTH, _ROW, _BOX, _TOP = 640, 54, (150, 30), 10


def moves_from(state: StepState, event: StepEvent) -> dict[Move, str]:
    """What an event leads to, each with the kind of step of which that is so; nothing where it changes nothing."""
    answers: dict[Facts, Move] = {}
    for facts in FACTS:
        answer = move(state, event, facts)
        if answer is not None and answer != Move(state):
            answers[facts] = answer
    return {answer: _condition([facts for facts in answers if answers[facts] == answer]) for answer in answers.values()}


def _condition(holding: list[Facts]) -> str:
    """What they have in common, and others have not."""
    words = []
    for name, (yes, no) in _WORDS.items():
        values = {getattr(facts, name) for facts in holding}
        if len(values) == 1:
            words.append(yes if values.pop() else no)
    return ", ".join(word for word in words if word)


def edges() -> dict[tuple[StepState, StepState], list[str]]:
    """From where to where, and by which events."""
    found: dict[tuple[StepState, StepState], list[str]] = {}
    for state, event in TABLE:
        for answer in moves_from(state, event):
            if answer.state is not state:
                found.setdefault((state, answer.state), []).append(event.value)
    return found


def moves_text() -> str:
    """A table for each state: event, next state, effects."""
    parts = []
    for state in StepState:
        rows = [
            f"| {event.value} | {condition} | {answer.state.value} | {'; '.join(effect.value for effect in answer.effects)} |"
            for event in StepEvent
            for answer, condition in moves_from(state, event).items()
        ]
        if rows:
            parts.append(f"**{state.value}**\n\n| event | of a step | next | effects |\n|---|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def requests_text() -> str:
    """One row a request: the states that take it."""
    rows = []
    for event in sorted(REQUESTS, key=lambda event: event.value):
        taken = [state.value for state in StepState if TABLE[state, event] is not None]
        rows.append(f"| {event.value} | {', '.join(taken)} |")
    return "| request | taken in |\n|---|---|\n" + "\n".join(rows)


def picture() -> str:
    """The states from top to bottom; what leads past others in arcs, down on the right, up on the left. Hover for the events."""
    places = {state: place for place, state in enumerate(StepState)}
    arrows = [(places[start], places[end], events) for (start, end), events in edges().items()]
    return draw("states of a supervisor", [state.value for state in StepState], arrows)


def draw(label: str, names: list[str], arrows: list[tuple[int, int, list[str]]]) -> str:
    """Boxes from top to bottom, and arrows between them by their places."""
    shapes = [_arrow(start, end, events) for start, end, events in arrows]
    shapes += [_box(name, place) for place, name in enumerate(names)]
    height = 2 * _TOP + _ROW * len(names)
    head = '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    head += '<path d="M0,0 L8,3 L0,6 z" fill="currentColor"/></marker></defs>'
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{head}{"".join(shapes)}</svg>'


def _box(name: str, place: int) -> str:
    width, height = _BOX
    left, top = (_WIDTH - width) / 2, _TOP + place * _ROW
    box = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6" fill="none" stroke="currentColor"/>'
    return f'{box}<text x="{_WIDTH / 2}" y="{top + 20}" text-anchor="middle" fill="currentColor">{name}</text>'


def _arrow(start: int, end: int, events: list[str]) -> str:
    width, height = _BOX
    middle, title = _WIDTH / 2, f"<title>{', '.join(events)}</title>"
    top = _TOP + start * _ROW + height / 2
    bottom = _TOP + end * _ROW + height / 2
    if end == start + 1:
        path = f"M{middle},{top + height / 2} L{middle},{bottom - height / 2}"
    else:
        side = 1 if end > start else -1
        near, far = middle + side * width / 2, middle + side * (width / 2 + 22 * abs(end - start))
        path = f"M{near},{top} C{far},{top} {far},{bottom} {near},{bottom}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.6" marker-end="url(#tip)">{title}</path>'


class _Picture(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", picture(), format="html")]


class _Moves(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(moves_text())


class _Requests(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(requests_text())


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the three directives known."""
    app.add_directive("supervisor-states", _Picture)
    app.add_directive("supervisor-moves", _Moves)
    app.add_directive("supervisor-requests", _Requests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
