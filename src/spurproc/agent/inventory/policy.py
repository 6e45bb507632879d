"""What is done about an outcome: a table, apart from how the outcome came about."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from spurproc.agent.inventory.outcome import ConfirmedBusy, ConfirmedIdle, Outcome, Pending, Unchanged
from spurproc.agent.inventory.reading import Failed

__all__ = ["ANSWERS", "Action", "Answer", "SystemDrain", "answer"]


class Action(enum.Enum):
    """What the agent does with the inventory."""

    NOTHING = "nothing"
    SKIP = "skip"
    """This reading is none; what was accepted stands."""
    WAIT = "wait"
    """For the next reading."""
    APPLY = "apply and register again"
    DRAIN = "drain until idle"
    """What runs goes on with what it has, nothing new is started, and the change is applied when all has ended."""


class SystemDrain(enum.Enum):
    """What becomes of the drain that an inventory sets. An operator's drain is another one, and never touched from here."""

    LEAVE = "leave"
    SET = "set"
    LIFT = "lift"


@dataclass(frozen=True, slots=True)
class Answer:
    """What to do, in this order."""

    action: Action
    system_drain: SystemDrain


ANSWERS: dict[type[Outcome], Answer] = {
    Unchanged: Answer(Action.NOTHING, SystemDrain.LIFT),  # what had vanished has returned
    Failed: Answer(Action.SKIP, SystemDrain.LEAVE),
    Pending: Answer(Action.WAIT, SystemDrain.LEAVE),
    ConfirmedIdle: Answer(Action.APPLY, SystemDrain.LIFT),
    ConfirmedBusy: Answer(Action.DRAIN, SystemDrain.SET),
}
"""Every outcome."""


def answer(outcome: Outcome) -> Answer:
    """To this outcome."""
    return ANSWERS[type(outcome)]
