"""At a start: attempts of which the store has no row, or none that can be read. Their step folders say what they are."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.draining import drain_for
from spurproc.agent.attempts.recovered import allocation_of, launch_of, spec_from
from spurproc.agent.attempts.step import traces_of
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store.attempt_row import AttemptState, DamagedRow
from spurproc.agent.store.attempts import accept, note_launch
from spurproc.client.step import Step
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId

__all__ = ["of_bad", "of_damaged", "of_step"]


async def of_step(around: Surroundings, attempt: AttemptId, step: Step) -> Attempt:
    """The store is older than the step: it gets a row again, before anything else becomes of it."""
    launch = await around.blocking.run(launch_of, around, attempt)
    allocation = allocation_of(launch, around.resources.inventory)
    if allocation is None:
        return await of_bad(around, attempt, "its step was given no CPUs, so no agent has launched it", has_row=False)
    at = around.clock()
    spec = spec_from(attempt, launch)
    descriptor = (await around.blocking.run(traces_of, around, attempt)).trace.content

    def body(connection: sqlite3.Connection) -> None:
        accept(connection, attempt, spec, allocation, at=at)
        note_launch(connection, attempt, descriptor or Trace.of_this_boot().content)

    await around.database.write(body)
    around.log.warning("found without a row", attempt=str(attempt), cpus=list(allocation.cpus))
    return Attempt(
        id=attempt,
        allocation=allocation,
        accepted_at=at,
        uid=spec.uid,
        state=AttemptState.RUNNING,
        begun=True,
        step=step,
        spec=spec,
    )


def of_damaged(around: Surroundings, row: DamagedRow, step: Step | None) -> Attempt:
    """Its step, if it has one, is watched; what it holds is what its step was given."""
    allocation = None
    with suppress(SpurprocError):
        allocation = None if step is None else allocation_of(launch_of(around, row.attempt), around.resources.inventory)
    if allocation is None:
        drain_for(around, row.attempt, row.why)
    why = f"its row in the agent's store cannot be read: {row.why}"
    return _held(row.attempt, why, at=0.0, step=step, allocation=allocation)


async def of_bad(around: Surroundings, attempt: AttemptId, why: str, *, has_row: bool) -> Attempt:
    """Nobody can tell what it was given. Without a row its folder alone tells of it: each start finds it there again."""
    drain_for(around, attempt, why)
    told = why if has_row else f"the agent's store knows nothing of it, and when it was found: {why}"
    held = _held(attempt, told, at=around.clock(), has_row=has_row)
    held.trace = (await around.blocking.run(traces_of, around, attempt)).trace
    return held


def _held(
    attempt: AttemptId,
    why: str,
    *,
    at: float,
    step: Step | None = None,
    allocation: Allocation | None = None,
    has_row: bool = True,
) -> Attempt:
    return Attempt(
        id=attempt,
        allocation=allocation,
        accepted_at=at,
        uid=os.geteuid(),
        state=AttemptState.HELD,
        has_row=has_row,
        begun=True,
        step=step,
        held_because=why,
    )
