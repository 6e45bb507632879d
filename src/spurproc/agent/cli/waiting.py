"""Waiting for the end of a job, however often its agent is stopped, killed or upgraded meanwhile."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import click

from spurproc.agent.cli.exit_code import code_of_end
from spurproc.agent.cli.failure import AgentUnreachable, Interrupted
from spurproc.errors import WaitTimeout

if TYPE_CHECKING:
    from spurproc.agent.cli.connection import AgentClient
    from spurproc.agent.cli.progress import Progress
    from spurproc.agent.cli.reach import Reach
    from spurproc.agent.service.replies import Changed, Ended

__all__ = ["WAITS", "connected_again", "wait_for_end"]

WAITS = f"{__name__}.waits"
"""In click's `meta`: the exit code is the job's, so that what goes wrong with us has to be told from it."""
_COMES_BACK_WITHIN_S = 120.0
_LOOK_S = 0.25


def wait_for_end(reach: Reach, client: AgentClient, job_id: int, progress: Progress, timeout_s: float | None = None) -> int:
    """Show how it stands until it has ended; returns its exit, as an exit code. Raises WaitTimeout, Interrupted.

    Takes `client`. An agent that goes away is expected back within two minutes: that nothing is lost by it is what it is for.
    """
    from spurproc.agent.service.replies import Ended  # noqa: PLC0415 - not for --help

    click.get_current_context().meta[WAITS] = True
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    try:
        with progress:
            for standing in _standings(reach, client, job_id, progress.away, deadline):
                if isinstance(standing, Ended):
                    code = code_of_end(None if standing.attempt is None else standing.attempt.end)
                    progress.ended(standing, code)
                    return code
                progress.changed(standing)
    except KeyboardInterrupt:
        raise Interrupted(f"job {job_id} goes on; `spurd wait {job_id}` waits again, `spurd cancel {job_id}` ends it") from None
    except WaitTimeout:
        raise WaitTimeout(f"job {job_id} has not ended in {timeout_s:g} s") from None
    raise AssertionError("a wait ends with an end")


def _standings(
    reach: Reach, client: AgentClient | None, job_id: int, away: Callable[[str], None], deadline: float
) -> Iterator[Changed | Ended]:
    """Each once, however many connections it takes."""
    last: Changed | Ended | None = None
    while True:
        with closing(client or connected_again(reach, deadline)) as connection:
            client = None
            try:
                for standing in connection.wait(job_id, timeout_s=deadline - time.monotonic()):
                    if standing != last:
                        yield standing
                    last = standing
            except AgentUnreachable as error:
                away(str(error).partition(";")[0])
                continue
            return


def connected_again(reach: Reach, deadline: float) -> AgentClient:
    """A new connection, once there is somebody. Raises WaitTimeout at `deadline`, AgentUnreachable after a while."""
    give_up = time.monotonic() + _COMES_BACK_WITHIN_S
    while True:
        try:
            return reach.connect()
        except AgentUnreachable:
            now = time.monotonic()
            if now >= deadline:
                raise WaitTimeout("the time is over") from None
            if now >= give_up:
                raise
        select.poll().poll(_LOOK_S * 1000)
