"""What a reading means beside the one before and what was accepted. Nothing acts on one reading alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.agent.inventory.reading import Failed, Inventory, Reading

__all__ = ["ConfirmedBusy", "ConfirmedIdle", "Outcome", "Pending", "Unchanged", "classify"]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The node has what was accepted."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Something else was read, once. The next reading confirms it, or it was an odd one."""

    inventory: Inventory


@dataclass(frozen=True, slots=True)
class ConfirmedIdle:
    """The node has changed, and nothing runs on it."""

    inventory: Inventory


@dataclass(frozen=True, slots=True)
class ConfirmedBusy:
    """The node has changed, and jobs run on what it had."""

    inventory: Inventory


Outcome = Unchanged | Failed | Pending | ConfirmedIdle | ConfirmedBusy


def classify(accepted: Inventory | None, last: Reading | None, reading: Reading, *, jobs_run: bool) -> Outcome:
    """`accepted` and `last` are None where there is none: at the first start, and at each start.

    Two readings in a row have to be equal: one that failed in between begins anew. To ask again when the last job has ended, give
    the last reading twice.
    """
    if isinstance(reading, Failed):
        return reading
    if reading == accepted:
        return Unchanged()
    if reading != last:
        return Pending(reading)
    return ConfirmedBusy(reading) if jobs_run else ConfirmedIdle(reading)
