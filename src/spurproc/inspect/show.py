"""`spurproc-inspect show`: who a process or what a recorded run is, whether it lives, how it ended, and what each rests on."""

from __future__ import annotations

import shlex
from typing import Any

import click

from spurproc.command_line.answer import Answer, Cell, Facts, Toned
from spurproc.command_line.output import json_option
from spurproc.core.exit_info import ExitInfo
from spurproc.core.tree.members import Containment, members
from spurproc.errors import SpurprocError
from spurproc.inspect.ending import NotEnded, end_of_process, end_of_run
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.held import HeldFolder, HeldProcess, open_folder, open_process
from spurproc.inspect.member_list import MemberList
from spurproc.inspect.process_facts import STATES, ProcessFacts, process_facts
from spurproc.inspect.provenance import (
    containment_fields,
    containment_row,
    exit_fields,
    exit_rows,
    identity_fields,
    observation_fields,
    observation_rows,
    process_fields,
    process_name,
    process_rows,
    run_fields,
    run_rows,
)
from spurproc.inspect.steps.show import show_step
from spurproc.inspect.target import TARGET, FolderTarget, StepTarget, Target

__all__ = ["command"]

_Rows = list[tuple[str, Cell]]


@click.command("show")
@click.argument("target", type=TARGET)
@click.option(
    "--members", "limit", type=click.IntRange(min=0), default=20, show_default=True, metavar="N", help="List N members at most."
)
@json_option
def command(target: Target, limit: int, as_json: bool) -> Answer:
    """Show what is known of TARGET, and what that rests on.

    Exit code 0 if there is something to show, alive or not; 1 if it is gone, or no run.
    """
    if isinstance(target, StepTarget):
        return show_step(target, limit)
    if isinstance(target, FolderTarget):
        with open_folder(target) as folder:
            return _of_folder(folder, limit)
    with open_process(target) as process:
        return _of_process(process, limit)


def _of_process(held: HeldProcess, limit: int) -> Answer:
    facts, seen = process_facts(held), held.identity.observe()
    end_fields, end_rows = _end(end_of_process(held))
    found = MemberList(members(held.tree()), limit)
    containment = Containment.PROCESS_GROUP
    fields = {
        "target": process_fields(held),
        "process": facts.to_json(),
        **observation_fields(seen),
        "containment": containment_fields(containment),
        "members": found.fields(),
        **end_fields,
    }
    rows = [*process_rows(held), ("identity", held.identity.to_text()), *_facts_rows(facts)]
    rows += [*observation_rows(seen), containment_row(containment), *end_rows]
    return Answer(exit_code=ExitCode.HOLDS, fields=fields, blocks=[Facts(rows), *found.blocks()])


def _end(end: ExitInfo | NotEnded) -> tuple[dict[str, Any], _Rows]:
    if isinstance(end, NotEnded):
        return {"state": end.state, "exit": None}, [("exit", f"not known yet: {end.reason}")]
    return {"state": "ended", "exit": exit_fields(end)}, exit_rows(end)


def _of_folder(held: HeldFolder, limit: int) -> Answer:
    run, record = held.run, held.run.record
    seen, (end_fields, end_rows), found = run.observe(), _end(end_of_run(held)), _run_members(held, limit)
    leader, recorder = run.leader, run.recorder
    fields = {
        "target": run_fields(held),
        "leader": None if leader is None else identity_fields(leader),
        "recorder": None if recorder is None else identity_fields(recorder),
        "launcher": identity_fields(record.launcher),
        "argv": list(record.argv),
        "cwd": record.cwd,
        "job_uid": record.job_uid,
        "recorder_uid": record.recorder_uid,
        **observation_fields(seen),
        "containment": containment_fields(record.containment),
        "cgroup": None if record.cgroup is None else record.cgroup.to_json(),
        "notes_error": held.parts.notes_error or None,
        "members": found.fields(),
        **end_fields,
    }
    rows = [*run_rows(held), *_record_rows(held), *observation_rows(seen), containment_row(record.containment)]
    if record.cgroup is not None:
        rows.append(("cgroup", record.cgroup.path))
    return Answer(exit_code=ExitCode.HOLDS, fields=fields, blocks=[Facts(rows + end_rows), *found.blocks()])


def _record_rows(held: HeldFolder) -> _Rows:
    record, leader, recorder = held.run.record, held.run.leader, held.run.recorder
    rows: _Rows = [("command", shlex.join(record.argv))]
    if record.cwd is not None:
        rows.append(("folder", record.cwd))
    rows.append(("user", f"{record.job_uid}; its record is kept by {record.recorder_uid}"))
    if leader is None:
        rows.append(("leader", "none is recorded"))
    else:
        rows.append(("leader", f"{process_name(leader)}, known by its {leader.strength.value}"))
    if recorder is not None:
        rows.append(("recorder", f"{process_name(recorder)}, {recorder.liveness().value}"))
    if held.parts.notes_error:
        rows.append(("notes", Toned(held.parts.notes_error, "bad")))
    return rows


def _facts_rows(facts: ProcessFacts) -> _Rows:
    rows: _Rows = [("name", "cannot be read" if facts.name is None else facts.name)]
    if facts.command:
        rows.append(("command", shlex.join(facts.command)))
    if facts.uid is not None:
        rows.append(("user", str(facts.uid)))
    if facts.state is not None:
        rows.append(("state", f"{facts.state}: {STATES.get(facts.state, 'not a state that we know')}"))
    if facts.parent_pid is not None:
        rows.append(("parent", str(facts.parent_pid)))
    if facts.cgroup is not None:
        rows.append(("cgroup", facts.cgroup))
    return rows


def _run_members(held: HeldFolder, limit: int) -> MemberList:
    try:
        tree = held.tree()
        return MemberList([] if tree is None else members(tree), limit)
    except SpurprocError as error:
        return MemberList([], limit, str(error))
