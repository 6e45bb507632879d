"""`spurd wait`: until a job has ended; its exit is passed on."""

from __future__ import annotations

import click

from spurproc.agent.cli.arguments import DURATION, JOB, JobName
from spurproc.agent.cli.progress import Progress
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.cli.waiting import WAITS, wait_for_end
from spurproc.command_line.output import json_option
from spurproc.errors import InvalidArgument

__all__ = ["command"]


@click.command("wait")
@click.argument("job", type=JOB)
@click.option("--timeout", "timeout_s", type=DURATION, metavar="TIME", help="How long to wait at most; for ever without.")
@json_option
@agent_options
def command(reach: Reach, job: JobName, timeout_s: float | None, as_json: bool) -> int:
    """Wait for the end of JOB, and pass it on.

    Exit code: the job's own, or 128 + N for signal N; 126 if it never ran, 125 if its end is not known or cannot be learnt, 124
    after TIME. An agent that is being restarted is waited for, up to two minutes. With --json, a line of JSON for each change.
    """
    if job.run_attempt is not None:
        raise InvalidArgument(f"cannot wait for {job}: an attempt is no job; wait for {job.job_id}, and see `spurd show`")
    click.get_current_context().meta[WAITS] = True
    return wait_for_end(reach, None, job.job_id, Progress("wait", as_json=as_json), timeout_s)
