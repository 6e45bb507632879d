"""Draws the supervisor's table from the code.

`{supervisor-states}` is the picture, `{supervisor-moves}` the list, `{supervisor-requests}` which request is taken where.
"""

from __future__ import annotations

from typing import Any

from directives import add_directives
from sphinx.application import Sphinx
from state_table import StateTable

from spurproc.proto.step_state import StepState
from spurproc.stepd.table import REQUESTS, TABLE, Facts, StepEvent, move

DRAWN = StateTable(
    subject="a step",
    states=StepState,
    events=StepEvent,
    facts=Facts,
    words={
        "has_leader": ("with a leader", "without a leader"),
        "has_prolog": ("with a prolog", "without a prolog"),
        "has_epilog": ("with an epilog", "without an epilog"),
        "prolog_left": ("a prolog was left behind", ""),
    },
    move=move,
)


def requests_text() -> str:
    """One row a request: the states that take it."""
    rows = []
    for event in sorted(REQUESTS, key=lambda event: event.value):
        taken = [state.value for state in StepState if TABLE[state, event] is not None]
        rows.append(f"| {event.value} | {', '.join(taken)} |")
    return "| request | taken in |\n|---|---|\n" + "\n".join(rows)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the three directives known."""
    texts = {"supervisor-moves": DRAWN.moves_text, "supervisor-requests": requests_text}
    return add_directives(app, pictures={"supervisor-states": DRAWN.picture}, texts=texts)
