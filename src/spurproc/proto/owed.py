"""What a step still owes, from its records alone."""

from __future__ import annotations

import enum

from spurproc.proto.journal_record import History
from spurproc.proto.launch_record import LaunchRecord

__all__ = ["Owed", "is_over", "owed"]


class Owed(enum.Enum):
    """What comes next, in this order."""

    END = "its end"
    TREE = "its tree"
    """That nothing of it is left."""
    EPILOG = "its epilog"
    REPORT = "its report"
    """That somebody acknowledges the end."""
    NOTHING = "nothing"


def owed(launch: LaunchRecord, history: History) -> Owed:
    """The first of what is not done yet."""
    if history.end is None:
        return Owed.END
    if history.emptied is None:
        return Owed.TREE
    if launch.epilog is not None and "epilog" not in history.hooks_completed:
        return Owed.EPILOG
    return Owed.REPORT if history.acknowledged is None else Owed.NOTHING


def is_over(launch: LaunchRecord, history: History) -> bool:
    """Whether nothing is owed but the report: ended, nothing of its tree left, and the epilog, if it has one, completed."""
    return owed(launch, history) in (Owed.REPORT, Owed.NOTHING)
