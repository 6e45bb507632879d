"""A step, for `spurproc-inspect show <state_dir>/runtime/STEP`."""

from __future__ import annotations

import os
import shlex
from typing import Any

from spurproc.client.status import StepStatus
from spurproc.command_line.answer import Answer, Cell, Facts, Toned
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import members
from spurproc.errors import SpurprocError
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.held_step import hold_step, open_step
from spurproc.inspect.member_list import MemberList
from spurproc.inspect.provenance import (
    exit_fields,
    exit_rows,
    identity_fields,
    observation_fields,
    observation_rows,
    process_name,
    step_containment_fields,
    step_containment_rows,
    step_fields,
    step_rows,
)
from spurproc.inspect.target import StepTarget
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.launch_record import LaunchRecord
from spurproc.proto.raw_text import raw_bytes
from spurproc.proto.step_folder import StateFolder

__all__ = ["show_step"]

_Rows = list[tuple[str, Cell]]


def show_step(target: StepTarget, limit: int) -> Answer:
    """What is known of it, and what that rests on; `limit`: how many members are listed."""
    status = open_step(target).status()
    with StateFolder.open(target.state_dir) as state, state.open_step(target.runtime_id) as step:
        launch, descriptor = step.launch(), step.descriptor()
    found = _members(target, limit)
    fields = {
        "target": step_fields(target),
        "state": status.state.value,
        "supervised": status.supervised,
        "rests_on": status.rests_on,
        "blocked_at": status.blocked_at,
        "held_by": list(status.held_by),
        "acknowledged": status.acknowledged,
        "owed": status.owed.value,
        "argv": _argv(launch),
        "time_limit_s": launch.time_limit_s,
        **observation_fields(status.liveness),
        **_keepers(descriptor),
        "members": found.fields(),
        "exit": None if status.end is None else exit_fields(status.end),
    }
    rows = [*step_rows(target), *_rows(launch, status), *observation_rows(status.liveness), *_keeper_rows(descriptor)]
    rows += [("exit", "not known yet")] if status.end is None else exit_rows(status.end)
    return Answer(exit_code=ExitCode.HOLDS, fields=fields, blocks=[Facts(rows), *found.blocks()])


def _members(target: StepTarget, limit: int) -> MemberList:
    try:
        with hold_step(target) as held:
            return MemberList([] if held.tree is None else members(held.tree), limit)
    except SpurprocError as error:
        return MemberList([], limit, str(error))


def _argv(launch: LaunchRecord) -> list[str] | None:
    return None if launch.program is None else [os.fsdecode(raw_bytes(argument)) for argument in launch.program.argv]


def _rows(launch: LaunchRecord, status: StepStatus) -> _Rows:
    argv = _argv(launch)
    rows: _Rows = [
        ("command", "none: it holds an allocation" if argv is None else shlex.join(argv)),
        ("state", f"{status.state.value}, by {status.rests_on}"),
    ]
    if launch.time_limit_s is not None:
        rows.append(("time limit", f"{launch.time_limit_s:g} s"))
    if status.blocked_at is not None:
        rows.append(("blocked at", Toned(status.blocked_at, "weak")))
    rows += [("cannot be ended", Toned(one, "bad")) for one in status.held_by]
    return rows


def _keepers(descriptor: Descriptor | None) -> dict[str, Any]:
    if descriptor is None:
        return dict.fromkeys(("leader", "supervisor", "host", "containment", "cgroup"))
    return {
        "leader": None if descriptor.leader is None else identity_fields(descriptor.leader),
        "supervisor": identity_fields(descriptor.supervisor),
        "host": identity_fields(descriptor.host),
        "containment": step_containment_fields(descriptor),
        "cgroup": None if descriptor.cgroup is None else descriptor.cgroup.to_json(),
    }


def _keeper_rows(descriptor: Descriptor | None) -> _Rows:
    if descriptor is None:
        return [("supervisor", "none has said that it is there")]
    leader = "none stands at its gate yet" if descriptor.leader is None else _named(descriptor.leader)
    rows: _Rows = [
        ("leader", leader),
        ("supervisor", _named(descriptor.supervisor)),
        ("host", _named(descriptor.host)),
        *step_containment_rows(descriptor),
    ]
    if descriptor.cgroup is not None:
        rows.append(("cgroup", descriptor.cgroup.path))
    return rows


def _named(identity: ProcessIdentity) -> str:
    try:
        return f"{process_name(identity)}, {identity.liveness().value}"
    except SpurprocError as error:
        return f"{process_name(identity)}, {error}"
