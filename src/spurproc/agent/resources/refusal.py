"""Why the table says no: too little of something, a claim that another has, or none to give back.

::

    SpurprocError
    |- Insufficient    what is asked for is not free; names what is short
    |- Conflict        an exact claim cannot be taken; names each thing and who has it
    `- NotHeld         nothing is held by this attempt
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Clash", "Conflict", "Insufficient", "NotHeld", "Shortage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Of `what` there are `total` in all, and fewer free than `wanted`."""

    what: str
    wanted: int
    free: int
    total: int

    @property
    def ever_met(self) -> bool:
        """Whether it would be met if nobody held anything."""
        return self.wanted <= self.total

    def __str__(self) -> str:
        return f"{self.what}: {self.wanted} wanted, {self.free} of {self.total} free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """One thing that cannot be claimed. `claimants` have it, or parts of it; none where the node has not got it at all."""

    thing: str
    claimants: tuple[AttemptId, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.thing}: {self.reason}"


class Insufficient(SpurprocError):
    """What an attempt asks for is not free now; `shortages` are all that is short."""

    def __init__(self, key: AttemptId, shortages: tuple[Shortage, ...]) -> None:
        self.shortages = shortages
        super().__init__(f"cannot allocate resources for {key}: {_joined(shortages)}")


class Conflict(SpurprocError):
    """An attempt cannot hold exactly this; `clashes` are all the reasons. Nothing was changed."""

    def __init__(self, key: AttemptId, clashes: tuple[Clash, ...]) -> None:
        self.clashes = clashes
        super().__init__(f"cannot claim resources for {key}: {_joined(clashes)}")

    @property
    def claimants(self) -> tuple[AttemptId, ...]:
        """Who has what was claimed, each once, in order."""
        return tuple(sorted({claimant for clash in self.clashes for claimant in clash.claimants}))


class NotHeld(SpurprocError):
    """Given back twice, or never held: the caller has lost count, and would soon give something away twice."""

    def __init__(self, key: AttemptId) -> None:
        super().__init__(f"cannot release resources of {key}: it holds none")


def _joined(parts: Iterable[object]) -> str:
    return "; ".join(map(str, parts))
