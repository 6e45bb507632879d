"""Where a step stands, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.client.connection import Gone, StepConnection
from spurproc.client.place import OpenedStep
from spurproc.client.step_processes import held_tree, observe_processes
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.exit_info import ExitInfo
from spurproc.core.observation import Observation
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import SpurprocError, WaitTimeout
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.journal_record import History
from spurproc.proto.messages import Status, StatusReply
from spurproc.proto.owed import Owed, is_over, owed
from spurproc.proto.step_state import StepState

__all__ = ["StepStatus", "status_of"]

_BY_SUPERVISOR = "its supervisor's answer"
_BY_RECORDS = "its records: no supervisor answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """Where a step stood at one moment.

    `liveness`: whether anything of its tree lives, seen from here, with the evidence. `end`: how it ended, once that is recorded.
    `supervised`: its supervisor has answered, and `state`, `blocked_at` and `held_by` are its words; else `state` is as far as
    the records go, and a program that hangs at its start or cannot be killed is not named. `rests_on` says so in words.
    `blocked_at`: the stage at which the leader's start waits, the name of a `SpawnStage`. `held_by`: what cannot be ended.
    `acknowledged`: nobody needs it any more. `owed`: what comes next, by its records. `leader`: its first process, once
    there is one. `supervisor`: who was the last to supervise it, living or not.
    """

    state: StepState
    liveness: Observation
    end: ExitInfo | None
    supervised: bool
    rests_on: str
    blocked_at: str | None = None
    held_by: tuple[str, ...] = ()
    acknowledged: bool = False
    owed: Owed = Owed.END
    leader: ProcessIdentity | None = None
    supervisor: ProcessIdentity | None = None


def status_of(opened: OpenedStep) -> StepStatus:
    """Ask its supervisor, else read. Raises RecordInvalid and the like."""
    reply = _asked(opened)
    history = opened.durable_history()
    descriptor = opened.descriptor()
    end = history.end if reply is None else reply.end or history.end
    return StepStatus(
        state=_recorded_state(opened, history, descriptor) if reply is None else reply.state,
        liveness=observe_processes(opened, descriptor, history),
        end=end,
        supervised=reply is not None,
        rests_on=_BY_RECORDS if reply is None else _BY_SUPERVISOR,
        blocked_at=None if reply is None else reply.blocked_at,
        held_by=() if reply is None else reply.held_by,
        acknowledged=history.acknowledged is not None,
        owed=owed(opened.launch, history),
        leader=None if descriptor is None else descriptor.leader,
        supervisor=None if descriptor is None else descriptor.supervisor,
    )


def _asked(opened: OpenedStep) -> StatusReply | None:
    try:
        with StepConnection.open(opened) as connection:
            reply = connection.ask(Status(runtime_id=opened.runtime_id))
    except (Gone, WaitTimeout):
        return None
    return reply if isinstance(reply, StatusReply) else None


def _recorded_state(opened: OpenedStep, history: History, descriptor: Descriptor | None) -> StepState:
    """How far the records go. Each is written before the state is entered, or right after."""
    if history.end is not None:
        owed = StepState.EMPTYING if history.emptied is None else StepState.EPILOG
        return StepState.COMPLETED if is_over(opened.launch, history) else owed
    if history.launched is not None:
        return _running_state(history, descriptor)
    return _beginning_state(history, descriptor)


def _beginning_state(history: History, descriptor: Descriptor | None) -> StepState:
    if history.gate_opening is not None:
        return StepState.OPENING
    if "prolog" in history.hooks_begun and "prolog" not in history.hooks_completed:
        return StepState.PROLOG
    if "prolog" in history.hooks_begun or (descriptor is not None and descriptor.leader is not None):
        return StepState.STARTING
    return StepState.NEW if descriptor is None else StepState.READY


def _running_state(history: History, descriptor: Descriptor | None) -> StepState:
    if history.terminating is not None:
        return StepState.STOPPING
    with held_tree(descriptor) as tree:
        frozen = tree is not None and tree.cgroup is not None and _is_frozen(tree.cgroup)
    return StepState.SUSPENDED if frozen else StepState.RUNNING


def _is_frozen(cgroup: Cgroup) -> bool:
    try:
        return cgroup.events().read().frozen
    except SpurprocError:
        return False
