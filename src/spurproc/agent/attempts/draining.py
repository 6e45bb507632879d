"""The drains of the node: as the store has them, and as the controller is told."""

from __future__ import annotations

from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.store.drains import Drain, DrainKind, add_drain, lift_drain
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["attempt_cause", "drain_for", "forget", "lift", "note", "set_drain", "stands", "step_cause"]


def stands(around: Surroundings, kind: DrainKind, cause: str) -> Drain | None:
    """The drain of this kind and cause; None where there is none."""
    return next((drain for drain in around.drains if (drain.kind, drain.cause) == (kind, cause)), None)


async def set_drain(around: Surroundings, drain: Drain) -> bool:
    """Take nothing new for this reason; durable. False: it was drained so before, and the reason is the new one."""
    before = stands(around, drain.kind, drain.cause)
    if before is None or before.why != drain.why:
        await around.database.write(lambda connection: add_drain(connection, drain))
        note(around, drain)
    return before is None


def note(around: Surroundings, drain: Drain) -> None:
    """The node shows it: it is durable, or found anew at each start."""
    others = tuple(one for one in around.drains if (one.kind, one.cause) != (drain.kind, drain.cause))
    around.drains = (*others, drain)
    around.log.warning("the node drains", kind=drain.kind.value, why=drain.why)
    around.drains_changed()


async def lift(around: Surroundings, kind: DrainKind, cause: str) -> bool:
    """That reason is gone. False: there was none."""
    if stands(around, kind, cause) is None:
        return False
    await around.database.write(lambda connection: lift_drain(connection, kind, cause))
    forget(around, kind, cause)
    return True


def forget(around: Surroundings, kind: DrainKind, cause: str) -> None:
    """The node shows it no more. One that is not there is fine."""
    if stands(around, kind, cause) is None:
        return
    around.drains = tuple(one for one in around.drains if (one.kind, one.cause) != (kind, cause))
    around.log.info("a drain is lifted", kind=kind.value, cause=cause)
    around.drains_changed()
    around.freed.set()


def drain_for(around: Surroundings, attempt: AttemptId, why: str, *, step: RuntimeId | None = None) -> None:
    """What it holds nobody knows, so nothing more is given away; found anew at each start, as long as it is so.

    `step`: of its steps the one that is the cause, and no attempt of ours.
    """
    words = f"nobody knows what attempt {attempt} holds: {why}"
    cause = attempt_cause(attempt) if step is None else step_cause(step)
    note(around, Drain(kind=DrainKind.SYSTEM, cause=cause, why=words, since=around.clock()))


def attempt_cause(attempt: AttemptId) -> str:
    """Of the drain that stands until what the attempt holds, whatever that is, is given back."""
    return f"attempt {attempt}"


def step_cause(step: RuntimeId) -> str:
    """Of the drain that stands as long as that step, which is no attempt of ours, runs."""
    return f"step {step}"
