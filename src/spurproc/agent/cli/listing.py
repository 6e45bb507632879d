"""`spurd jobs`: which there are, the latest first."""

from __future__ import annotations

import os
import pwd

import click

from spurproc.agent.cli.arguments import COUNT
from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.fields import job_fields, resources_text, state_cell, time_text
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.service.shown import JobView
from spurproc.command_line.answer import Answer, Cell, Grid, Line
from spurproc.command_line.output import json_option
from spurproc.errors import InvalidArgument

__all__ = ["command"]

_UNENDED = ("queued", "dispatched", "held")


@click.command("jobs")
@click.option("--all", "-a", "ended_too", is_flag=True, help="Those that have ended as well.")
@click.option("--user", metavar="USER", help="Of that user alone, by name or number; of others only root sees any.")
@click.option("--limit", type=COUNT, default="50", show_default=True, metavar="N", help="N of them at most.")
@json_option
@agent_options
def command(reach: Reach, ended_too: bool, user: str | None, limit: int, as_json: bool) -> Answer:
    """List jobs that have not ended.

    The latest first: one's own, and as root all.

    Exit code 0, also where there are none.
    """
    uid = None if user is None else _uid(user)
    with reach.connect() as client:
        jobs = list(client.jobs(uid=uid, states=() if ended_too else _UNENDED, most=limit + 1))
    shown, more = jobs[:limit], len(jobs) > limit
    blocks = (Grid(("JOB", "NAME", "USER", "STATE", "RESOURCES", "SUBMITTED"), list(map(_row, shown))),)
    nothing = (Line("no jobs" if ended_too else "no jobs that have not ended"),)
    ending = (Line(f"and more; --limit {limit * 2} lists more"),) if more else ()
    fields = {"jobs": list(map(job_fields, shown)), "more": more}
    return Answer(exit_code=ExitCode.DONE, fields=fields, blocks=(*blocks, *ending) if shown else nothing)


def _row(job: JobView) -> tuple[Cell, ...]:
    return (
        str(job.attempt),
        job.name,
        job.user,
        state_cell(job),
        resources_text(job.resources),
        time_text(job.submitted_at) or "",
    )


def _uid(user: str) -> int:
    if user.isascii() and user.isdigit() and len(user) <= 10:
        return int(user)
    try:
        return pwd.getpwnam(os.fspath(user)).pw_uid
    except (KeyError, ValueError):
        raise InvalidArgument(f"--user: there is no user {user!r:.60}") from None
