"""What became of one signal to a tree: values only."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import Any

from spurproc.errors import InvalidArgument

__all__ = ["Refusal", "RefusalReason", "Route", "SignalReport"]


class Route(enum.Flag):
    """How the members were found. Several bits: some stood where only another route reaches."""

    NOBODY = 0
    """Nobody was found by any."""
    CGROUP = enum.auto()
    """In `cgroup.procs` of the tree's cgroup, or of one below."""
    DESCENDANTS = enum.auto()
    """In `/proc`, below the tree's subreaper."""
    PROCESS_GROUP = enum.auto()
    """In the leader's process group or session."""


class RefusalReason(enum.Enum):
    """Why a member was not signalled."""

    NOT_PERMITTED = "not permitted"
    """EPERM: another user's. kill(2), "Permissions"."""
    FOREIGN = "foreign pid namespace"
    """Listed as 0: no number of ours names it."""
    INIT = "pid 1"
    """Never signalled."""
    CALLER = "the caller"
    """Never signalled."""
    UNCONFIRMED = "unconfirmed"
    """It lives, but cannot be shown to be a member: its cgroup cannot be read."""
    UNSUPPORTED = "needs pidfd_send_signal"
    """A sandbox refuses that call, and nothing is ever sent to a bare number."""
    ERROR = "error"
    """Anything else: see `Refusal.errno`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A member that was found and not signalled. `pid` is 0 for one that this pid namespace cannot name."""

    pid: int
    errno: int
    reason: RefusalReason

    def __str__(self) -> str:
        return f"pid {self.pid}: {self.reason.value} ({os.strerror(self.errno)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReport:
    """What one call reached.

    `route` says by which ways the members were found, `passes` how often they were listed. `signalled` counts processes, each
    once, and claims none that is not known: a group that was signalled at once, behind hidepid, counts as the one of which the
    kernel tells, a cgroup that was killed at once as those who were listed before and are gone behind it. `refused` are the
    members that the last pass found and could not signal. `complete` is true when the last pass found nobody new: everybody who
    was there has been signalled or is in `refused`. It is false when the tree forked faster than the passes that were allowed, or
    some of it could not be listed.
    """

    signal: int
    route: Route
    signalled: int
    refused: tuple[Refusal, ...]
    passes: int
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`."""
        return {
            "signal": self.signal,
            "route": [way.name for way in self.route],
            "signalled": self.signalled,
            "refused": [{"pid": who.pid, "errno": who.errno, "reason": who.reason.value} for who in self.refused],
            "passes": self.passes,
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> SignalReport:
        """Undo `to_json`. Raises InvalidArgument for what is no such dict."""
        try:
            route = Route.NOBODY
            for name in form["route"]:
                route |= Route[name]
            return cls(
                signal=int(form["signal"]),
                route=route,
                signalled=int(form["signalled"]),
                refused=tuple(
                    Refusal(pid=int(who["pid"]), errno=int(who["errno"]), reason=RefusalReason(who["reason"]))
                    for who in form["refused"]
                ),
                passes=int(form["passes"]),
                complete=bool(form["complete"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"cannot read a signal report: {error!r}") from None
