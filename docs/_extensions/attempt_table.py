"""Draws the agent's table of attempts from the code: `{attempt-states}` is the picture, `{attempt-moves}` the list."""

from __future__ import annotations

from typing import Any

from directives import add_directives
from sphinx.application import Sphinx
from state_table import StateTable

from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.table import Facts, move
from spurproc.agent.store.attempt_row import AttemptState

DRAWN = StateTable(
    subject="an attempt",
    states=AttemptState,
    events=AttemptEvent,
    facts=Facts,
    words={
        "has_prolog": ("with a prolog", "without a prolog"),
        "has_epilog": ("with an epilog", "without an epilog"),
        "has_step": ("of a job", "of a reservation"),
        "cancelled": ("to be ended", "not to be ended"),
        "reported": ("reported", "not reported"),
    },
    move=move,
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make both directives known."""
    return add_directives(app, pictures={"attempt-states": DRAWN.picture}, texts={"attempt-moves": DRAWN.moves_text})
