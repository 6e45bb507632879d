"""Why the node takes no new work. Each function is the body of one transaction of the agent's store.

A system drain has a cause, and lifts itself when that is over. The operator's stays until an operator lifts it.
"""

from __future__ import annotations

import enum
import sqlite3
from dataclasses import dataclass

__all__ = ["OPERATOR", "Drain", "DrainKind", "add_drain", "drains", "lift_drain"]


class DrainKind(enum.Enum):
    """Who lifts it."""

    OPERATOR = "operator"
    SYSTEM = "system"


_KINDS = tuple(kind.value for kind in DrainKind)

OPERATOR = "operator"
"""The cause of the operator's: there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """One reason among others. `cause` names it (for a system drain: what it is lifted by); `why` is for people."""

    kind: DrainKind
    cause: str
    why: str
    since: float


def add_drain(connection: sqlite3.Connection, drain: Drain) -> None:
    """Take no new work for this reason. One that stands keeps its time, and gets the new words."""
    connection.execute(
        "INSERT INTO drains (kind, cause, why, since) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (kind, cause) DO UPDATE SET why = excluded.why",
        (drain.kind.value, drain.cause, drain.why, drain.since),
    )


def lift_drain(connection: sqlite3.Connection, kind: DrainKind, cause: str) -> bool:
    """Whether there was one to lift."""
    kinds = f"kind = ? OR kind NOT IN ({', '.join('?' * len(_KINDS))})" if kind is DrainKind.OPERATOR else "kind = ?"
    others = _KINDS if kind is DrainKind.OPERATOR else ()
    return connection.execute(f"DELETE FROM drains WHERE cause = ? AND ({kinds})", (cause, kind.value, *others)).rowcount > 0


def drains(connection: sqlite3.Connection) -> tuple[Drain, ...]:
    """All that stand, the oldest first. One of a kind that is not known counts as the operator's: nobody else would lift it."""
    rows = connection.execute("SELECT kind, cause, why, since FROM drains ORDER BY since, kind, cause")
    return tuple(_drain(*fields) for fields in rows)


def _drain(kind: object, cause: object, why: object, since: object) -> Drain:
    at = float(since) if isinstance(since, (int, float)) else 0.0
    if kind in _KINDS:
        return Drain(kind=DrainKind(kind), cause=str(cause), why=str(why), since=at)
    words = f"{why} (a drain of a kind that is not known: {kind!r:.60})"
    return Drain(kind=DrainKind.OPERATOR, cause=str(cause), why=words, since=at)
