"""Waiting for the end of a job, however often its agent is stopped, killed or upgraded meanwhile."""

from __future__ import annotations

import math
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

from spurproc.agent.cli.exit_code import code_of_end
from spurproc.agent.cli.failure import AgentUnreachable, Interrupted
from spurproc.command_line.escape import printable
from spurproc.errors import WaitTimeout

if TYPE_CHECKING:
    from spurproc.agent.cli.connection import AgentClient
    from spurproc.agent.cli.progress import Progress
    from spurproc.agent.cli.reach import Reach
    from spurproc.agent.service.replies import Changed, Ended

__all__ = ["WAITS", "connected", "connected_again", "wait_for_end"]

WAITS = f"{__name__}.waits"
"""In click's `meta`: the exit code is the job's, so that what goes wrong with us has to be told from it."""
_COMES_BACK_WITHIN_S = 120.0
_LOOK_S = 0.25


def wait_for_end(
    reach: Reach, client: AgentClient | None, job_id: int, progress: Progress, timeout_s: float | None = None
) -> int:
    """Show how it stands until it has ended; returns its exit, as an exit code. Raises WaitTimeout, Interrupted.

    Takes `client`; None: there is no connection yet. An agent that is away is expected back within two minutes: that nothing is
    lost by it is what it is for.
    """
    from spurproc.agent.service.replies import Ended  # noqa: PLC0415 - not for --help

    click.get_current_context().meta[WAITS] = True
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    try:
        with progress:
            connection = client or connected(reach, deadline, progress.absent)
            for standing in _standings(reach, connection, job_id, progress.away, deadline):
                if isinstance(standing, Ended):
                    code = code_of_end(None if standing.attempt is None else standing.attempt.end)
                    progress.ended(standing, code)
                    return code
                progress.changed(standing)
    except KeyboardInterrupt:
        raise Interrupted(f"job {job_id} goes on; `spurd wait {job_id}` waits again, `spurd cancel {job_id}` ends it") from None
    except _NobodyAnswers:
        where = f"no agent answers at {reach.kept_path!r}"
        raise WaitTimeout(f"cannot tell how job {job_id} stands: {where}, for {timeout_s:g} s") from None
    except WaitTimeout:
        raise WaitTimeout(f"job {job_id} has not ended in {timeout_s:g} s") from None
    raise AssertionError("a wait ends with an end")


class _NobodyAnswers(WaitTimeout):
    """The time is over, and there is nobody to be asked."""


def _standings(
    reach: Reach, client: AgentClient | None, job_id: int, away: Callable[[str], None], deadline: float
) -> Iterator[Changed | Ended]:
    """Each once, however many connections it takes."""
    last: Changed | Ended | None = None
    lost_at: float | None = None
    while True:
        with closing(client or connected_again(reach, deadline)) as connection:
            client = None
            try:
                for standing in connection.wait(job_id, timeout_s=deadline - time.monotonic()):
                    lost_at = None
                    if standing != last:
                        yield standing
                    last = standing
            except AgentUnreachable as error:
                if lost_at is None:
                    lost_at = time.monotonic()
                    away(str(error).partition(";")[0])
                elif time.monotonic() - lost_at > _COMES_BACK_WITHIN_S:  # it lets us in, and tells nothing
                    raise
                _pause(deadline)
                continue
            return


def connected(reach: Reach, deadline: float = math.inf, absent: Callable[[str], None] | None = None) -> AgentClient:
    """A first connection, for who would wait anyhow: an agent that is being started again is told of, and waited for.

    Where there never was one there is nothing to wait for. Raises AgentUnreachable, at once then, and else as `connected_again`.
    """
    try:
        return reach.connect()
    except AgentUnreachable as error:
        if not error.comes_back or not reach.was_there():
            raise
    _tell_absent(reach.kept_path)
    if absent is not None:
        absent(reach.kept_path)
    return connected_again(reach, deadline)


def _tell_absent(path: str) -> None:
    """On standard error: standard output may be a job's."""
    with suppress(OSError, AttributeError):  # there may be none
        sys.stderr.write(f"spurd: waiting for the agent at {printable(repr(path))}\n")
        sys.stderr.flush()


def connected_again(reach: Reach, deadline: float) -> AgentClient:
    """A new connection, once there is somebody. Raises WaitTimeout at `deadline`, AgentUnreachable after a while."""
    give_up = time.monotonic() + _COMES_BACK_WITHIN_S
    while True:
        try:
            return reach.connect()
        except AgentUnreachable:
            now = time.monotonic()
            if now >= deadline:
                raise _NobodyAnswers("the time is over") from None
            if now >= give_up:
                raise
        _pause(deadline)


def _pause(deadline: float) -> None:
    select.poll().poll(max(0.0, min(_LOOK_S, deadline - time.monotonic())) * 1000)
