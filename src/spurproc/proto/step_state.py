"""Where a supervised step stands: the states of its supervisor's table."""

from __future__ import annotations

import enum

__all__ = ["StepState"]


class StepState(enum.Enum):
    """In the order in which they are passed; several can be left out."""

    NEW = "new"
    """Published; its supervisor makes itself reachable."""
    READY = "ready"
    """Waits for `start`."""
    PROLOG = "prolog"
    """Its prolog runs."""
    STARTING = "starting"
    """The leader takes its steps up to the exec gate."""
    OPENING = "opening"
    """The gate is open; whether the exec worked is not known yet."""
    RUNNING = "running"
    """The leader runs; of an extern step: it holds its allocation."""
    SUSPENDED = "suspended"
    """Frozen, or stopped."""
    STOPPING = "stopping"
    """The kill plan is walked, and the leader has not ended yet."""
    EMPTYING = "emptying"
    """The end is recorded; the kill plan is walked until nothing of the tree is left."""
    EPILOG = "epilog"
    """Its epilog runs."""
    HELD = "held"
    """Something of the tree cannot be ended, or not be proven to have ended: its resources stay taken."""
    COMPLETED = "completed"
    """Nothing is owed but the report."""
    LEAVING = "leaving"
    """Acknowledged, or nobody asks any more: the supervisor ends."""
