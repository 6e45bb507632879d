"""What can happen to an attempt."""

from __future__ import annotations

import enum

__all__ = ["AttemptEvent"]


class AttemptEvent(enum.Enum):
    """An event of the table."""

    BEGIN = "begin"
    """It was taken on just now; or an agent has started, and found it in this state."""
    HOOK_PASSED = "hook passed"
    """The node's prolog or epilog has exited with 0."""
    HOOK_FAILED = "hook failed"
    """It ended otherwise, could not be started, took too long, or nobody knows."""
    LAUNCHED = "launched"
    """It has a step, which from now on says itself what becomes of it."""
    NOT_LAUNCHED = "not launched"
    """It has none, and nothing of it has run."""
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    CANCEL = "cancel"
    """Somebody wants it to end; the intent is not durable yet."""
    STEP_OVER = "step over"
    """Its step has ended, and nothing of its tree is left."""
    STUCK = "stuck"
    """Its kill plan is over and something lives on; or it cannot be told what becomes of it."""
    FOUND = "found"
    """What becomes of it can be told again."""
    REPORTED = "reported"
    """The controller has the report, or nobody has to take it."""
    REPORT_REFUSED = "report refused"
    """The controller will never take it."""
