"""`spurd cancel`, `suspend`, `resume`, `requeue`: what is done to a job. Each is done to one attempt, or not at all."""

from __future__ import annotations

import click

from spurproc.agent.cli.arguments import JOB, JobName
from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.command_line.answer import Answer, Line
from spurproc.command_line.output import json_option
from spurproc.proto.attempt_id import AttemptId

__all__ = ["cancel", "requeue", "resume", "suspend"]

_why_option = click.option("--why", default="", metavar="TEXT", help="The reason, for the record.")


@click.command("cancel")
@click.argument("job", type=JOB)
@_why_option
@json_option
@agent_options
def cancel(reach: Reach, job: JobName, why: str, as_json: bool) -> Answer:
    """End JOB.

    At once if it is queued, else by its kill plan. `wait` tells when it is over, and `show` how it really ended.

    Exit code 0 when that is on its way, or it had ended before.
    """
    with reach.connect() as client:
        attempt = _attempt(client, job)
        answer = client.cancel(attempt, why=why)
    text = {"asked": "is being ended", "over": "had ended before", "ended in the queue": "is ended, and never ran"}
    return _answer(attempt, f"job {attempt} {text.get(answer, answer)}", answer=answer)


@click.command("suspend")
@click.argument("job", type=JOB)
@json_option
@agent_options
def suspend(reach: Reach, job: JobName, as_json: bool) -> Answer:
    """Freeze all of JOB. It keeps what it has.

    Exit code 0 once it stands still.
    """
    with reach.connect() as client:
        attempt = _attempt(client, job)
        client.suspend(attempt)
    return _answer(attempt, f"job {attempt} stands still")


@click.command("resume")
@click.argument("job", type=JOB)
@json_option
@agent_options
def resume(reach: Reach, job: JobName, as_json: bool) -> Answer:
    """Let a suspended JOB go on.

    Exit code 0 once it does.
    """
    with reach.connect() as client:
        attempt = _attempt(client, job)
        client.resume(attempt)
    return _answer(attempt, f"job {attempt} goes on")


@click.command("requeue")
@click.argument("job", type=JOB)
@_why_option
@json_option
@agent_options
def requeue(reach: Reach, job: JobName, why: str, as_json: bool) -> Answer:
    """Run JOB once more, as a new attempt.

    If it runs, it is ended first.

    Exit code 0 when that is on its way, 6 if it is in the queue already.
    """
    with reach.connect() as client:
        done = client.requeue(_attempt(client, job), why=why)
    when = "is in the queue" if done.now else "comes once the one before has ended"
    return _answer(done.attempt, f"attempt {done.attempt} {when}", now=done.now)


def _attempt(client: AgentClient, job: JobName) -> AttemptId:
    """The one that is named; else the one that counts now. If it does not any more when it is acted on, nothing is done."""
    if job.run_attempt is not None:
        return AttemptId(job.job_id, job.run_attempt)
    return client.show(job.job_id).job.attempt


def _answer(attempt: AttemptId, text: str, **more: object) -> Answer:
    fields = {"job_id": attempt.job_id, "run_attempt": attempt.run_attempt, **more}
    return Answer(exit_code=ExitCode.DONE, fields=fields, blocks=(Line(text),))
