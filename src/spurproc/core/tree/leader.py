"""The process that a tree grew from: named, and held where it can be."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.identity import ProcessIdentity, named_here
from spurproc.core.process.pidfd import Pidfd
from spurproc.errors import InvalidArgument

__all__ = ["Leader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that was exec'd for a job. Never held without a name: what is watched can also be signalled.

    `pidfd`: held since it started, where it is; borrowed. It still names the leader's group after the leader was reaped.
    """

    identity: ProcessIdentity
    pidfd: Pidfd | None = None

    def __post_init__(self) -> None:
        if self.pidfd is not None and named_here(self.identity) and self.pidfd.pid not in (0, self.identity.pid):
            raise InvalidArgument(f"cannot hold the leader {self.identity} by a pidfd of process {self.pidfd.pid}")

    def liveness(self) -> Liveness:
        """By the held pidfd first. Does not block."""
        return self.identity.liveness() if self.pidfd is None else self.pidfd.liveness()

    def observe(self) -> Observation:
        """As `liveness`, with the evidence."""
        if self.pidfd is None:
            return self.identity.observe()
        liveness = self.pidfd.liveness()
        return Observation(liveness=liveness, evidence="pidfd", detail=f"the leader is {liveness.value}")
