"""What is said on the control socket of a step, and on the socket of a host."""

from __future__ import annotations

import msgspec

from spurproc.core.exit_info import ExitInfo
from spurproc.core.tree.termination import KillPlan
from spurproc.proto.codec import PROTOCOL_VERSION
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_state import StepState

__all__ = [
    "EVENTS",
    "Acknowledge",
    "Completed",
    "Ended",
    "Hello",
    "HostReply",
    "HostRequest",
    "Launch",
    "LookAgain",
    "Refused",
    "Reply",
    "Request",
    "Resume",
    "Retire",
    "Signal",
    "Signalled",
    "Start",
    "Started",
    "StateChanged",
    "Status",
    "StatusReply",
    "Subscribe",
    "Suspend",
    "TakeOver",
    "Terminate",
    "Welcome",
]


class _Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="request"):
    runtime_id: RuntimeId
    """Which step is meant: compared for equality at the last moment before the act."""


class Hello(_Request, frozen=True, kw_only=True, tag="hello"):
    """The first message of every connection."""

    capability: str
    v: int = PROTOCOL_VERSION


class Start(_Request, frozen=True, kw_only=True, tag="start"):
    """Go on to the leader. Refused in any state but READY."""


class Status(_Request, frozen=True, kw_only=True, tag="status"):
    """Where the step stands."""


class Subscribe(_Request, frozen=True, kw_only=True, tag="subscribe"):
    """Tell of every change from now on."""


class Signal(_Request, frozen=True, kw_only=True, tag="signal"):
    """One signal to the whole tree."""

    signal: int


class Suspend(_Request, frozen=True, kw_only=True, tag="suspend"):
    """Freeze the tree."""


class Resume(_Request, frozen=True, kw_only=True, tag="resume"):
    """Undo Suspend."""


class Terminate(_Request, frozen=True, kw_only=True, tag="terminate"):
    """Walk the kill plan: this one, or the step's own."""

    plan: KillPlan | None = None


class Acknowledge(_Request, frozen=True, kw_only=True, tag="acknowledge"):
    """The end is durable where it has to be known."""


Request = Hello | Start | Status | Subscribe | Signal | Suspend | Resume | Terminate | Acknowledge


class _Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="reply", omit_defaults=True):
    pass


class Welcome(_Reply, frozen=True, kw_only=True, tag="welcome"):
    """To Hello."""

    state: StepState
    v: int = PROTOCOL_VERSION


class Refused(_Reply, frozen=True, kw_only=True, tag="refused"):
    """The request was not carried out, and why. `state` is where the step stands."""

    why: str
    state: StepState | None = None
    launched_before: bool = False
    """Of a host that was asked to launch it: not that it may be launched again."""


class StatusReply(_Reply, frozen=True, kw_only=True, tag="status"):
    """To Status; to Start, Suspend, Resume, Terminate, Subscribe and Acknowledge when they were taken."""

    state: StepState
    end: ExitInfo | None = None
    blocked_at: str | None = None
    """The stage at which the leader's start waits."""
    held_by: tuple[str, ...] = ()
    """What cannot be ended."""


class Signalled(_Reply, frozen=True, kw_only=True, tag="signalled"):
    """To Signal: what came of it."""

    report: dict[str, object]


class StateChanged(_Reply, frozen=True, kw_only=True, tag="state_changed"):
    """An event: the step has moved on, and what that means is done and recorded."""

    state: StepState


class Started(_Reply, frozen=True, kw_only=True, tag="started"):
    """An event: the leader was exec'd."""

    leader: str | None = None


class Ended(_Reply, frozen=True, kw_only=True, tag="ended"):
    """An event: how the step ended is recorded."""

    end: ExitInfo


class Completed(_Reply, frozen=True, kw_only=True, tag="completed"):
    """An event: nothing is owed but the report."""

    end: ExitInfo


EVENTS = (StateChanged, Started, Ended, Completed, StatusReply)
"""Told to who has subscribed; StatusReply when something turns out not to end."""
Reply = Welcome | Refused | StatusReply | Signalled | StateChanged | Started | Ended | Completed


class _HostRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="host_request"):
    pass


class Launch(_HostRequest, frozen=True, kw_only=True, tag="launch"):
    """With three descriptors: the step's folder, its lock, and a connection for its supervisor."""

    runtime_id: RuntimeId


class TakeOver(_HostRequest, frozen=True, kw_only=True, tag="take_over"):
    """Nobody answers for the step: see to it. Answered by LookAgain, or Refused, once there is something new."""

    runtime_id: RuntimeId


class LookAgain(_Reply, frozen=True, kw_only=True, tag="look_again"):
    """A host's answer to TakeOver: the step has a supervisor again, or its records say more than before."""


class Retire(_HostRequest, frozen=True, kw_only=True, tag="retire"):
    """Take no more launches, and end with the last step."""


HostRequest = Launch | TakeOver | Retire

HostReply = LookAgain | Refused
