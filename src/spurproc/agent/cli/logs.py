"""`spurd logs`: what a job has written, read from its file by whoever asks, with their own rights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing

import click

from spurproc.agent.cli.arguments import JOB, JobName
from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.following import AttemptWatch, read_file
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.cli.waiting import connected
from spurproc.agent.service.replies import JobDetail
from spurproc.command_line.output import json_option, write_bytes
from spurproc.errors import SpurprocError, Unsupported, from_errno
from spurproc.proto.raw_text import raw_bytes

__all__ = ["command"]


class _NoOutput(SpurprocError):
    """There is no file to be read: a fact about the job, and no mistake in the command line."""


@click.command("logs")
@click.argument("job", type=JOB)
@click.option("--stderr", "errors", is_flag=True, help="Its standard error instead of its output.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended; wait for it to begin.")
@json_option
@agent_options
def command(reach: Reach, job: JobName, errors: bool, follow: bool, as_json: bool) -> int:
    """Print what JOB has written.

    Byte for byte: its last attempt, or the one that is named. The file is opened as oneself; as root, as the job's user. Links of
    others are not followed. Exit code 0; 1 if there is none, or it cannot be read. There is no JSON of it.
    """
    if as_json:
        raise Unsupported("cannot print a job's output as JSON: it is bytes, and printed as they are")
    for piece in _pieces(reach, job, errors=errors, follow=follow):
        write_bytes(piece)
    return ExitCode.DONE


def _pieces(reach: Reach, job: JobName, *, errors: bool, follow: bool) -> Iterator[bytes]:
    with ExitStack() as held:
        detail = _shown(reach, job, follow=follow)
        watch = None
        if follow and job.run_attempt in (None, detail.job.attempt.run_attempt):
            watch = held.enter_context(closing(AttemptWatch(reach, detail.job.attempt)))
            watch.await_begun()
            detail = _shown(reach, job, follow=True)
        path = _path(detail, job, errors=errors)
        _become(detail)
        yield from read_file(path, {detail.job.uid, os.geteuid()}, watch)


def _shown(reach: Reach, job: JobName, *, follow: bool) -> JobDetail:
    with connected(reach) if follow else reach.connect() as client:
        return client.show(job.job_id)


def _path(detail: JobDetail, job: JobName, *, errors: bool) -> bytes:
    wanted = [one for one in detail.attempts if job.run_attempt in (None, one.attempt.run_attempt)]
    if not wanted:
        why = "it has not begun" if job.run_attempt is None else "there is no such attempt, or it has not begun"
        raise _NoOutput(f"cannot read the output of job {job}: {why}")
    path = wanted[-1].stderr if errors else wanted[-1].stdout
    if path is None:
        raise _NoOutput(f"cannot read the output of job {job}: it has no such file, or which one is not known")
    return raw_bytes(path)


def _become(detail: JobDetail) -> None:
    """Nothing that root may do is done to a file that a user names: we are that user from here on, for good. setresuid(2)"""
    job, program = detail.job, detail.program
    if os.geteuid() != 0 or job.uid == 0:
        return
    if program is None:
        raise _NoOutput(f"cannot read the output of job {job.attempt}: its record is damaged, so its groups are not known")
    try:
        os.setgroups(program.groups)
        os.setresgid(program.gid, program.gid, program.gid)
        os.setresuid(job.uid, job.uid, job.uid)
    except OSError as error:
        raise from_errno(error.errno or 0, "become", f"user {job.uid}, to read the output of job {job.attempt}") from None
