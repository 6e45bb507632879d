"""How the agent ends: it leaves the jobs to the next one, or its folder was lost, and it ends what nobody could find any more."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.fencing import fence, fence_hook, unnamed
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.table import LIVE
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.quarantine import write_quarantine
from spurproc.core.recorded.run import RecordedRun
from spurproc.errors import SpurprocError

__all__ = ["fence_all", "leave"]

_ANSWERED_WITHIN_S = 5.0


async def leave(around: Surroundings, attempts: Attempts) -> ExitCode:
    """Leave the jobs. The node is taken out of the controller's books only where nothing is left on it.

    Raises OwnershipLost: nothing is written then, and nobody is told, for another agent may serve by now.
    """
    idle = attempts.owes_nothing
    around.ending = True
    around.ownership.require()
    deregistered = idle and await _deregistered(around)
    around.log.info("ends", left=len(attempts), deregistered=deregistered)
    return ExitCode.QUARANTINED if _quarantine(around, attempts) else ExitCode.STOPPED


async def _deregistered(around: Surroundings) -> bool:
    """Whether the controller has said that it is so. One that says nothing keeps no agent from ending."""
    with suppress(SpurprocError, TimeoutError):
        async with asyncio.timeout(_ANSWERED_WITHIN_S):
            await around.link.deregister()
            return True
    return False


def _quarantine(around: Surroundings, attempts: Attempts) -> bool:
    """What lives and could be named by nobody after us is put down: nothing is served until it is gone."""
    trees = unnamed(attempts, around.state_dir.steps)
    if trees:
        around.ownership.require()
    for tree in trees:
        around.log.error("quarantined", step=tree.name, why=tree.reason)
    if trees:
        try:
            write_quarantine(around.state_dir, trees, at_s=time.time())
        except SpurprocError as error:  # the exit code says it all the same
            around.log.warning("the quarantine cannot be written down", error=str(error))
    return bool(trees)


async def fence_all(around: Surroundings, attempts: Attempts) -> None:
    """End all that was launched from a folder that is gone."""
    fenced = [_fence(around, attempt) for attempt in attempts if attempt.state in LIVE]
    await asyncio.gather(*fenced, *(_fence_hook(around, name, run) for name, run in around.hooks.items()))
    around.log.warning("what it had launched is ended", attempts=len(attempts))


async def _fence(around: Surroundings, attempt: Attempt) -> None:
    proof = await around.blocking.walk(fence, attempt, around.configuration.kill_plan)
    around.log.warning("fenced", attempt=str(attempt.id), proof=proof)


async def _fence_hook(around: Surroundings, name: str, run: RecordedRun) -> None:
    """Its recorder goes on in a folder that is gone; nobody would ever read what it writes."""
    proof = await around.blocking.run(fence_hook, run)
    around.log.warning("fenced", hook=name, proof=proof)
