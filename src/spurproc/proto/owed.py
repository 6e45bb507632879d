"""What a step still owes, from its records alone."""

from __future__ import annotations

from spurproc.proto.journal_record import History
from spurproc.proto.launch_record import LaunchRecord

__all__ = ["is_over"]


def is_over(launch: LaunchRecord, history: History) -> bool:
    """Whether nothing is owed but the report: ended, nothing of its tree left, and the epilog, if it has one, completed."""
    hooks_done = launch.epilog is None or "epilog" in history.hooks_completed
    return history.end is not None and history.emptied is not None and hooks_done
