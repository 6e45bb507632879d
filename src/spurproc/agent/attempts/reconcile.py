"""At a start: what ran, by the step folders; what is owed, by the store; what is held, by both. Each goes on where it stands.

Recorded ends come first, then liveness; what can be told of neither is held and shown. One bad folder stops nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.claims import displace, restore
from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.draining import drain_for
from spurproc.agent.attempts.hooks import HookName, hook_begun
from spurproc.agent.attempts.leftovers import sweep_folders
from spurproc.agent.attempts.outdated import settle_outdated
from spurproc.agent.attempts.step import trace_of, traces_of
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.attempts.without_row import of_bad, of_damaged, of_step
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.store.attempt_row import AttemptRow, AttemptState, Obligation
from spurproc.agent.store.attempts import load_all, note_launch, spec_of
from spurproc.client.adoption import RefusedFolder, adopt
from spurproc.client.collection import sweep
from spurproc.client.step import Step
from spurproc.core.exit_info import ExitInfo
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import InvalidArgument, OwnershipLost, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP, RuntimeId
from spurproc.proto.step_folder import StateFolder

__all__ = ["Found", "look", "reconcile"]

_STATE_OF = {
    Obligation.EPILOG: AttemptState.EPILOG,
    Obligation.RELEASE: AttemptState.RELEASING,
    Obligation.REPORT: AttemptState.REPORTING,
    Obligation.SPOOL: AttemptState.FORGETTING,
}


@dataclass(slots=True, kw_only=True)
class Found:
    """What stands in the folders. `bad`: step folders that cannot be used, with the reason; `strange`: names of no attempt."""

    steps: dict[AttemptId, Step] = field(default_factory=dict)
    others: list[Step] = field(default_factory=list)
    """Steps beside the batch step."""
    bad: dict[AttemptId, str] = field(default_factory=dict)
    strange: list[RefusedFolder] = field(default_factory=list)
    swept: tuple[str, ...] = ()
    """What launches and removals that were cut short had left; it is gone."""

    @property
    def seen(self) -> set[AttemptId]:
        """All attempts that have been launched."""
        return {*self.steps, *self.bad, *(AttemptId.of(step.runtime_id) for step in self.others)}


def look(state_dir: str) -> Found:
    """The step folders. Blocks for the disk, as long as it takes to read a few small files of each. Raises as `adopt`.

    What an agent that was killed has left of a launch, or of a removal, goes: whoever owns the state folder alone launches there.
    """
    found = Found()
    with StateFolder.open(state_dir, create=True):
        found.swept = sweep(state_dir).swept
        adoption = adopt(state_dir)
    for step in adoption.steps:
        if step.runtime_id.step_id == BATCH_STEP:
            found.steps[AttemptId.of(step.runtime_id)] = step
        else:
            found.others.append(step)
    for refused in adoption.refused:
        try:
            found.bad[AttemptId.of(RuntimeId.parse(refused.name))] = str(refused.error)
        except InvalidArgument:
            found.strange.append(refused)
    return found


async def reconcile(around: Surroundings, attempts: Attempts) -> Found:
    """Take up all that there is. Nothing is launched and nobody is told of anything until its caller has each of them begin."""
    found = await around.blocking.run(look, around.state_dir.steps.path)
    await settle_outdated(around, found.seen)
    rows, damaged = await around.database.read(load_all)
    taken = [await _guarded(around, row.attempt, _of_row(around, row, found), has_row=True) for row in rows]
    taken += [of_damaged(around, row, found.steps.get(row.attempt)) for row in damaged]
    await _note_launches(around, rows, found)
    known = {one.id for one in taken}
    for attempt, step in found.steps.items():
        if attempt not in known:
            taken.append(await _guarded(around, attempt, of_step(around, attempt, step), has_row=False))
    taken += [await of_bad(around, attempt, why, has_row=False) for attempt, why in found.bad.items() if attempt not in known]
    restore(around, taken)
    displace(around, taken)
    for name in found.swept:
        around.log.info("swept", folder=name)
    await attempts.foreign.leave_alone(found.others)
    await sweep_folders(around, {*found.seen, *(one.id for one in taken)})
    for strange in found.strange:
        around.log.warning("left alone", folder=strange.name, why=str(strange.error))
    for one in taken:
        attempts.add(one)
    return found


async def _guarded(around: Surroundings, attempt: AttemptId, made: Awaitable[Attempt], *, has_row: bool) -> Attempt:
    """It; or, where it cannot be read, one that is held and shown, and keeps nobody from starting."""
    try:
        return await made
    except OwnershipLost:
        raise
    except (SpurprocError, OSError) as error:
        return await of_bad(around, attempt, str(error), has_row=has_row)


async def _of_row(around: Surroundings, row: AttemptRow, found: Found) -> Attempt:
    attempt = Attempt.of_row(row)
    attempt.step = found.steps.get(attempt.id)
    if row.end is not None:
        attempt.state = _STATE_OF[row.owed[0]] if row.owed else AttemptState.FORGETTING
        if row.allocation is None and row.holds_resources:
            drain_for(around, attempt.id, "the node is not cleaned up behind it")
    elif attempt.id in found.bad:
        attempt.state, attempt.held_because = AttemptState.HELD, found.bad[attempt.id]
        attempt.trace = await around.blocking.run(trace_of, around, attempt.id, row.launched)
    elif attempt.step is not None:
        attempt.state = AttemptState.SUSPENDED if row.state is AttemptState.SUSPENDED else AttemptState.RUNNING
    elif row.launched is not None:  # its step folder was removed: it is watched by what was known of it before that
        attempt.state, attempt.trace = AttemptState.RUNNING, Trace(row.launched)
    else:
        await _not_launched(around, attempt)
    return attempt


async def _note_launches(around: Surroundings, rows: Iterable[AttemptRow], found: Found) -> None:
    """Those that were launched by who did not come to say so: were their folders removed, they would be launched again."""
    new = [row.attempt for row in rows if row.launched is None and (row.attempt in found.steps or row.attempt in found.bad)]
    if not new:
        return
    read = {attempt: (await around.blocking.run(traces_of, around, attempt)).trace.content for attempt in new}

    def body(connection: sqlite3.Connection) -> None:
        for attempt, descriptor in read.items():
            note_launch(connection, attempt, descriptor or Trace.of_this_boot().content)

    try:
        await around.database.write(body)
    except OwnershipLost:
        raise
    except SpurprocError as error:  # a full disk keeps nobody from starting; the next start says it again
        around.log.warning("cannot say what was launched", error=str(error))


async def _not_launched(around: Surroundings, attempt: Attempt) -> None:
    """Nothing of it has run but perhaps its prolog. A reservation that nothing runs in ends with the agent that gave it."""
    attempt.spec = await around.database.read(partial(_spec, attempt=attempt.id))
    if attempt.spec is None:
        attempt.state, attempt.held_because = AttemptState.HELD, "what it is to run cannot be read from the agent's store"
    elif attempt.spec.reservation:
        attempt.is_reservation, attempt.has_claim, attempt.state = True, False, AttemptState.ACCEPTED
        attempt.end = ExitInfo.not_started(SpawnStage.NONE.name, 0, reason="a reservation ends with the agent that gave it")
        attempt.cancel = attempt.cancel or around.intent("the agent was started anew")
    else:
        attempt.begun = hook_begun(around, attempt.id, HookName.PROLOG)
        attempt.state = AttemptState.PROLOG if attempt.begun else AttemptState.ACCEPTED


def _spec(connection: sqlite3.Connection, attempt: AttemptId) -> JobSpec | None:
    with suppress(SpurprocError):
        return spec_of(connection, attempt)
    return None
