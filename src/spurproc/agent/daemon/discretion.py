"""What is told of drains and problems to users who do not see all: what concerns the node, and nobody's attempt or process."""

from __future__ import annotations

from collections.abc import Mapping

from spurproc.agent.attempts.records import HOOK_DRAINS
from spurproc.agent.daemon.inventory_turns import OF_INVENTORY
from spurproc.agent.service.shown import DrainView
from spurproc.agent.store.drains import Drain, DrainKind

__all__ = ["drain_view", "problems_told"]

_OF_NODE = frozenset((*OF_INVENTORY, "mark", "queue", "storage", "store", "unit"))
"""Causes that are about the node alone: told in full. Whatever is not known here may be about somebody."""
_OF_GPU = "GPU "


def drain_view(drain: Drain, *, sees_all: bool) -> DrainView:
    """One drain."""
    cause, why = drain.cause, drain.why
    if not sees_all and drain.kind is DrainKind.SYSTEM and cause not in _OF_NODE:
        if cause in HOOK_DRAINS:
            why = f"the {cause} of an attempt failed"
        else:
            cause, why = "attempt", "nobody knows what an attempt holds"
    return DrainView(kind=drain.kind.value, cause=cause, why=why, since=drain.since)


def problems_told(problems: Mapping[str, str], *, sees_all: bool) -> tuple[str, ...]:
    """Each once. `problems`: by their causes."""
    return tuple(dict.fromkeys(why if sees_all or cause in _OF_NODE else _discreet(cause) for cause, why in problems.items()))


def _discreet(cause: str) -> str:
    if cause.startswith(_OF_GPU):
        return f"{cause} is held back: something that is left of a job uses it"
    return "an attempt cannot go on yet"
