"""At a start: what stands in the state folder and is of no attempt that anybody knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container

from spurproc.agent.attempts.hooks import HookName, recorded_hooks, sweep_hook
from spurproc.agent.attempts.step import remove_folders
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.jobs.spool import spooled
from spurproc.errors import OwnershipLost, SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["sweep_folders", "sweep_hooks"]


async def sweep_folders(around: Surroundings, known: Container[AttemptId]) -> None:
    """Scripts and scratch folders that a store which was lost knew of."""
    folders = (around.state_dir.spool, around.state_dir.scratch)
    for attempt in {attempt for folder in folders for attempt in spooled(folder)[0] if attempt not in known}:
        around.ownership.require()
        try:
            await around.blocking.run_patiently(remove_folders, around, attempt)
        except OwnershipLost:
            raise
        except (SpurprocError, OSError) as error:
            around.log.warning("left alone", folders=str(attempt), why=str(error))
        else:
            around.log.info("swept", folders=str(attempt))


async def sweep_hooks(
    around: Surroundings, known: Container[AttemptId], may_come: Callable[[AttemptId], Awaitable[bool]]
) -> None:
    """The records of hooks of attempts that such a store knew of, but for what may still run: the next start looks again.

    `may_come`: whether the controller may give out that very attempt. Its prolog was run for it then: that is not done twice,
    unless its epilog has cleaned up behind it.
    """
    for attempt, names in (await around.blocking.run(recorded_hooks, around)).items():
        if attempt in known or (HookName.EPILOG not in names and await may_come(attempt)):
            continue
        for name in names:
            await _sweep_hook(around, attempt, name)


async def _sweep_hook(around: Surroundings, attempt: AttemptId, name: HookName) -> None:
    around.ownership.require()
    try:
        await around.blocking.run_patiently(sweep_hook, around, attempt, name)
    except OwnershipLost:
        raise
    except (SpurprocError, OSError) as error:
        around.log.warning("left alone", hook=f"{attempt}.{name.value}", why=str(error))
    else:
        around.log.info("swept", hook=f"{attempt}.{name.value}")
