"""A job as `run` holds it: a child of ours whose whole tree can be ended and proven gone."""

from __future__ import annotations

from typing import Protocol

from spurproc.core.exit_info import ExitInfo
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan, TerminationReport
from spurproc.errors import InvalidArgument, WaitTimeout

__all__ = ["KILL_TIMEOUT_S", "Job", "is_closed", "reap"]

KILL_TIMEOUT_S = 10.0
_REAP_TIMEOUT_S = 1.0


class Job(Protocol):
    """What `run` asks of either kind. Nothing is made before `start`."""

    containment: Containment

    def start(self, plan: SpawnPlan, timeout_s: float) -> None:
        """Start it; its exec is confirmed. Raises SpawnError. No job runs before it is held here: an interrupt loses none."""

    def leader_entries(self) -> list[tuple[int, int]]:
        """What to poll for the leader's end."""

    def leader_ended(self) -> bool:
        """Whether it has, or that cannot be learnt any more. Does not block."""

    def empty_entries(self) -> list[tuple[int, int]]:
        """What to poll for the end of the tree; the kernel may tell some milliseconds late, so look now and then."""

    def is_empty(self) -> bool:
        """Whether nothing of the tree lives: proven. Does not block."""

    def is_lost(self) -> bool:
        """Whether `is_empty` can never become true: who could have proven it was killed. Does not block."""

    def terminate(self, plan: KillPlan, *, timeout_s: float | None = None) -> TerminationReport:
        """`terminate_tree` on all of it."""

    def end(self) -> ExitInfo:
        """How the leader ended; reaps our child. Blocks for a second at most."""

    def close(self) -> TerminationReport | None:
        """Let go. What lives on is killed first, for at most 10 s, and reported; None: nothing had to be done.

        May be called twice, after a call that was interrupted, and before `start` has returned.
        """


def reap(leader: Pidfd) -> ExitInfo:
    """How it ended, its reap included. Blocks for a second at most, where a tracer holds it."""
    if leader.liveness() is Liveness.ALIVE:
        return ExitInfo.unknown("it still runs")
    try:
        return leader.wait(_REAP_TIMEOUT_S)
    except WaitTimeout:  # it is traced: its tracer has to let go of it first
        return leader.exit_info()


def is_closed(pidfd: Pidfd | None) -> bool:
    """Whether nothing is held by it any more."""
    try:
        return pidfd is None or pidfd.fileno() < 0
    except InvalidArgument:
        return True
