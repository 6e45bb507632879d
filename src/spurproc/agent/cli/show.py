"""`spurd show`: all that is known of a job."""

from __future__ import annotations

import shlex

import click

from spurproc.agent.cli.arguments import JOB, JobName
from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.fields import (
    attempt_fields,
    cpu_list,
    end_cell,
    job_fields,
    program_fields,
    resources_text,
    size_text,
    state_cell,
    text_of,
    time_text,
)
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.service.replies import JobDetail
from spurproc.agent.service.shown import AttemptView, ProgramView
from spurproc.command_line.answer import Answer, Block, Cell, Facts, Line, Toned
from spurproc.command_line.output import json_option

__all__ = ["allocation_text", "command"]

_Rows = list[tuple[str, Cell]]


@click.command("show")
@click.argument("job", type=JOB)
@json_option
@agent_options
def command(reach: Reach, job: JobName, as_json: bool) -> Answer:
    """Show JOB and its attempts.

    What it runs, what it has, how it ended.

    Exit code 0 if there is such a job, however it ended.
    """
    with reach.connect() as client:
        detail = client.show(job.job_id)
    attempts = [one for one in detail.attempts if job.run_attempt in (None, one.attempt.run_attempt)]
    fields = {
        "job": job_fields(detail.job),
        "program": None if detail.program is None else program_fields(detail.program),
        "damaged": detail.damaged,
        "attempts": list(map(attempt_fields, attempts)),
    }
    blocks: list[Block] = [Facts(_job_rows(detail))]
    for attempt in attempts:
        blocks += [Line(Toned(f"attempt {attempt.attempt.run_attempt}", "title")), Facts(_attempt_rows(attempt))]
    return Answer(exit_code=ExitCode.DONE, fields=fields, blocks=blocks)


def _job_rows(detail: JobDetail) -> _Rows:
    job = detail.job
    rows: _Rows = [
        ("job", str(job.attempt.job_id)),
        ("name", job.name),
        ("user", f"{job.user} ({job.uid})" + ("" if job.submitted_by == job.uid else f", submitted by {job.submitted_by}")),
        ("state", state_cell(job)),
        ("submitted", time_text(job.submitted_at) or ""),
        ("resources", resources_text(job.resources)),
    ]
    if job.held_because is not None:
        rows.append(("held", Toned(job.held_because, "bad")))
    if job.requeue_wanted:
        rows.append(("requeue", "once this attempt has ended"))
    rows += [("damaged", Toned(why, "bad")) for why in (job.damaged, detail.damaged) if why is not None]
    return rows + ([] if detail.program is None else _program_rows(detail.program))


def _program_rows(program: ProgramView) -> _Rows:
    words = shlex.join(text_of(argument) or "" for argument in program.argv)
    rows: _Rows = []
    if program.script_bytes is not None:
        rows.append(("script", f"{size_text(program.script_bytes)}" + (f", with {words}" if words else "")))
    elif words:
        rows.append(("command", words))
    rows.append(("folder", text_of(program.work_dir) or "a scratch folder for each attempt"))
    if program.time_limit_s is not None:
        rows.append(("limit", f"{program.time_limit_s:g} s"))
    return rows


def _attempt_rows(attempt: AttemptView) -> _Rows:
    rows: _Rows = []
    for name, at in (("dispatched", attempt.dispatched_at), ("started", attempt.started_at), ("ended", attempt.ended_at)):
        if at is not None:
            rows.append((name, time_text(at) or ""))
    if attempt.allocation is not None:
        rows.append(("has", allocation_text(attempt.allocation)))
    for name, path in (("output", attempt.stdout), ("errors", None if attempt.stderr == attempt.stdout else attempt.stderr)):
        if path is not None:
            rows.append((name, text_of(path) or ""))
    if attempt.not_enforced:
        rows.append(("not held", Toned(f"to {', '.join(attempt.not_enforced)}: see `spurd status`", "weak")))
    if attempt.cancelled:
        rows.append(("cancelled", _cancel_text(attempt)))
    if attempt.node_fault is not None:
        rows.append(("fault", Toned(attempt.node_fault, "bad")))
    if attempt.end is not None:
        rows += [("exit", end_cell(attempt.end)), ("known by", attempt.end.source.value)]
    return rows + ([] if attempt.damaged is None else [("damaged", Toned(attempt.damaged, "bad"))])


def _cancel_text(attempt: AttemptView) -> str:
    by = "" if attempt.cancelled_by is None else f"by user {attempt.cancelled_by}"
    return ": ".join(filter(None, (by, attempt.cancelled_because))) or "yes"


def allocation_text(allocation: Allocation) -> str:
    """What somebody has, by its names."""
    parts = [f"CPU {cpu_list(allocation.cpus)}"]
    if allocation.memory_bytes:
        parts.append(size_text(allocation.memory_bytes))
    parts += [f"GPU {gpu}" for gpu in allocation.gpus]
    parts += [f"{count} {name}" for name, count in allocation.generic.items()]
    return ", ".join(parts)
