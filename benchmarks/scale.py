"""How much of everything a run measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Counts that every benchmark goes by. All of them are written beside the results."""

    rounds: int
    """Rounds of a cheap measure; a dear one takes a part of them (`fewer`)."""
    warm_up: int
    """Rounds before those, thrown away."""
    turns: int
    """Questions in one loop of what takes less than a microsecond: far longer than a look at the clock, far shorter than a time
    slice."""
    loops: int
    """Such loops in a round."""
    members: int
    """Processes in the tree, and things asked about at once."""
    large_heap_mib: int
    small_heap_mib: int = 10
    jobs: int
    """Jobs alive at once when memory is counted."""
    steps: int
    """Supervised steps alive at once when their memory is counted."""
    adopted: int
    """Such steps when their adoption is timed, and a half and a quarter of them; for the agent's start also twice as many."""
    load: int
    """Jobs that are submitted at once."""
    idle_s: float
    """How long an idle wait is watched."""

    def fewer(self, divisor: int) -> int:
        """Rounds for what takes `divisor` times as long; never none."""
        return max(1, self.rounds // divisor)


FULL = Scale(
    rounds=101,
    warm_up=3,
    turns=1_000,
    loops=10,
    members=1_000,
    large_heap_mib=4096,
    jobs=20,
    steps=100,
    adopted=1_000,
    load=200,
    idle_s=1.0,
)
QUICK = Scale(
    rounds=1, warm_up=0, turns=200, loops=1, members=20, large_heap_mib=64, jobs=2, steps=3, adopted=8, load=4, idle_s=0.1
)
"""Shows that everything still runs; its figures mean nothing."""
