"""Whether something lives: a tri-state, and the evidence behind it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from spurproc.core._native import lib

__all__ = ["LIVENESS_OF_CODE", "Liveness", "Observation"]


class Liveness(enum.Enum):
    """Whether a process, cgroup or tree lives. UNKNOWN is an answer of its own and is never treated as GONE."""

    ALIVE = "alive"
    GONE = "gone"
    """Ended, whether reaped or not: a zombie with no thread left is GONE."""
    UNKNOWN = "unknown"
    """Cannot be told from here."""


LIVENESS_OF_CODE = {lib.SPUR_UNKNOWN: Liveness.UNKNOWN, lib.SPUR_ALIVE: Liveness.ALIVE, lib.SPUR_GONE: Liveness.GONE}
"""From the codes of the C core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A liveness with the reason for it.

    `evidence` is one machine-readable word (`pidfd`, `handle`, `ticks`, `boot`, `cgroup.events`, ...), `detail` a sentence for
    people. `escaped`: the leader lives although the cgroup that should hold it is empty or gone.
    """

    liveness: Liveness
    evidence: str
    detail: str
    escaped: bool = False
