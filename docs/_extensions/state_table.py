"""Draws a table of states from the code: as a picture, and as the list of what happens in each state.

None of it is written by hand, so none of it can differ from what the code does.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

_WIDTH, _ROW, _BOX, _TOP = 640, 54, (150, 30), 10


@dataclass(frozen=True, kw_only=True)
class StateTable:
    """`move` says of state, event and facts where that leads and what is done (`state`, `effects`); None: it is not taken.

    `subject` is whose states they are; `words` says of each fact what is so where it holds, and where it does not.
    """

    subject: str
    states: type[enum.Enum]
    events: type[enum.Enum]
    facts: type[Any]
    words: Mapping[str, tuple[str, str]]
    move: Callable[[Any, Any, Any], Any]

    @cached_property
    def _facts(self) -> list[Any]:
        names = [field.name for field in fields(self.facts)]
        return [
            self.facts(**dict(zip(names, values, strict=True))) for values in itertools.product((True, False), repeat=len(names))
        ]

    def moves_from(self, state: enum.Enum, event: enum.Enum) -> dict[Any, str]:
        """What an event leads to, each with what is so of whom it leads there; nothing where it changes nothing."""
        holding: dict[Any, list[Any]] = {}
        for facts in self._facts:
            answer = self.move(state, event, facts)
            if answer is not None and (answer.state is not state or answer.effects):
                holding.setdefault(answer, []).append(facts)
        return {answer: self._condition(found) for answer, found in holding.items()}

    def _condition(self, holding: list[Any]) -> str:
        """What they have in common, and others have not."""
        said = []
        for name, (yes, no) in self.words.items():
            values = {getattr(facts, name) for facts in holding}
            if len(values) == 1:
                said.append(yes if values.pop() else no)
        return ", ".join(word for word in said if word)

    def edges(self) -> dict[tuple[enum.Enum, enum.Enum], list[str]]:
        """From where to where, and by which events."""
        found: dict[tuple[enum.Enum, enum.Enum], dict[str, None]] = {}
        for state, event in itertools.product(self.states, self.events):
            for answer in self.moves_from(state, event):
                if answer.state is not state:
                    found.setdefault((state, answer.state), {})[event.value] = None
        return {edge: list(events) for edge, events in found.items()}

    def picture(self) -> str:
        """The states from top to bottom; what leads past others in arcs: down on the right, up on the left. Events as titles."""
        places = {state: place for place, state in enumerate(self.states)}
        shapes = [_arrow(places[start], places[end], events) for (start, end), events in self.edges().items()]
        shapes += [_box(state.value, place) for state, place in places.items()]
        height = 2 * _TOP + _ROW * len(places)
        head = '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        head += '<path d="M0,0 L8,3 L0,6 z" fill="currentColor"/></marker></defs>'
        label = f'aria-label="states of {self.subject}"'
        return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" {label}>{head}{"".join(shapes)}</svg>'

    def moves_text(self) -> str:
        """A table for each state in which anything happens: event, of whom, next state, effects."""
        parts = []
        for state in self.states:
            rows = [
                f"| {event.value} | {condition} | {answer.state.value} | {'; '.join(effect.value for effect in answer.effects)} |"
                for event in self.events
                for answer, condition in self.moves_from(state, event).items()
            ]
            head = f"**{state.value}**\n\n| event | of {self.subject} | next | effects |\n|---|---|---|---|\n"
            parts += [head + "\n".join(rows)] if rows else []
        return "\n\n".join(parts)


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
