"""A step, for `spurproc-inspect show <state_dir>/runtime/STEP`."""

from __future__ import annotations

import os
import shlex
from typing import Any

from spurproc.client.status import StepStatus
from spurproc.client.step import Step
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import InvalidArgument, SpurprocError
from spurproc.inspect.answer import Answer, Cell, Facts, Toned
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.provenance import (
    containment_fields,
    containment_row,
    exit_fields,
    exit_rows,
    identity_fields,
    observation_fields,
    observation_rows,
    process_name,
)
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.launch_record import LaunchRecord
from spurproc.proto.raw_text import raw_bytes
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import RUNTIME_NAME, StateFolder

__all__ = ["show_step", "step_of"]

_Rows = list[tuple[str, Cell]]


def step_of(path: str) -> tuple[str, RuntimeId] | None:
    """The state folder and the id, where `path` is `<state_dir>/runtime/<id>`; else None."""
    above, name = os.path.split(os.path.abspath(path))
    state_dir, runtime = os.path.split(above)
    if runtime != RUNTIME_NAME:
        return None
    try:
        return state_dir, RuntimeId.parse(name)
    except InvalidArgument:
        return None


def show_step(state_dir: str, runtime_id: RuntimeId) -> Answer:
    """What is known of it, and what that rests on."""
    status = Step.open(state_dir, runtime_id).status()
    with StateFolder.open(state_dir) as state, state.open_step(runtime_id) as step:
        launch, descriptor = step.launch(), step.descriptor()
    fields = {
        "target": {"kind": "step", "state_dir": state_dir, "step": str(runtime_id)},
        "state": status.state.value,
        "supervised": status.supervised,
        "rests_on": status.rests_on,
        "blocked_at": status.blocked_at,
        "held_by": list(status.held_by),
        "acknowledged": status.acknowledged,
        "argv": _argv(launch),
        "time_limit_s": launch.time_limit_s,
        **observation_fields(status.liveness),
        **_keepers(descriptor),
        "exit": None if status.end is None else exit_fields(status.end),
    }
    rows = [*_rows(runtime_id, launch, status), *observation_rows(status.liveness), *_keeper_rows(descriptor)]
    rows += [("exit", "not known yet")] if status.end is None else exit_rows(status.end)
    return Answer(exit_code=ExitCode.HOLDS, fields=fields, blocks=[Facts(rows)])


def _argv(launch: LaunchRecord) -> list[str] | None:
    return None if launch.program is None else [os.fsdecode(raw_bytes(argument)) for argument in launch.program.argv]


def _rows(runtime_id: RuntimeId, launch: LaunchRecord, status: StepStatus) -> _Rows:
    argv = _argv(launch)
    rows: _Rows = [
        ("step", str(runtime_id)),
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
        return {"leader": None, "supervisor": None, "host": None, "containment": None, "cgroup": None}
    return {
        "leader": None if descriptor.leader is None else identity_fields(descriptor.leader),
        "supervisor": identity_fields(descriptor.supervisor),
        "host": identity_fields(descriptor.host),
        "containment": containment_fields(descriptor.containment),
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
        containment_row(descriptor.containment),
    ]
    if descriptor.cgroup is not None:
        rows.append(("cgroup", descriptor.cgroup.path))
    return rows


def _named(identity: ProcessIdentity) -> str:
    try:
        return f"{process_name(identity)}, {identity.liveness().value}"
    except SpurprocError as error:
        return f"{process_name(identity)}, {error}"
