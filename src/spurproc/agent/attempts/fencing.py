"""Trees of which there are no records any more: they end, or are put down in quarantine, by what the agent remembers of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.node.quarantine import QuarantinedTree
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.observation import Liveness
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.termination import KILL_ALL, KillPlan, terminate_tree
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.runtime_id import BATCH_STEP
from spurproc.proto.step_folder import RUNTIME_NAME

__all__ = ["Fenced", "clear_cgroup", "fence", "fence_hook", "fence_lost", "unnamed"]

_SETTLE_S = 1.0


def unnamed(attempts: Iterable[Attempt], steps: PrivateFolder) -> list[QuarantinedTree]:
    """What lives, and has no step folder by which the next agent would find it. Does not block. Raises SystemCallError.

    What may live and cannot be named is held by the next agent as by this one, for the store has it.
    """
    return [tree for attempt in attempts if (tree := _unnamed(attempt, steps)) is not None]


def _unnamed(attempt: Attempt, steps: PrivateFolder) -> QuarantinedTree | None:
    trace = attempt.trace
    step = str(attempt.id.step(BATCH_STEP))
    if steps.has(f"{RUNTIME_NAME}/{step}") or trace.is_empty or trace.known_are_gone:
        return None
    processes = tuple(one.to_text() for one in (trace.leader, trace.supervisor) if one is not None)
    return QuarantinedTree(
        name=step, reason="its step folder was removed, and it lives", cgroup=trace.cgroup, identity_texts=processes
    )


def fence(attempt: Attempt, plan: KillPlan) -> str:
    """End its tree. Blocks as long as the plan takes. What was proved, in words.

    Its supervisor sees the same removal, and does the same: whoever comes second finds nobody.
    """
    trace = attempt.trace
    try:
        if trace.cgroup is not None:
            return _fence_cgroup(trace, plan)
        if trace.leader is None:
            return "no process of it is known"
        return _walk(ProcessTree(leader=Leader(identity=trace.leader)), plan)
    except AlreadyGone:
        return "gone"
    except SpurprocError as error:
        return f"not known: {error}"


def fence_hook(run: RecordedRun) -> str:
    """As `fence`, of a hook; with its cgroup, for the recorder leaves that to whoever reads what it wrote."""
    try:
        proof = run.terminate(KILL_ALL).proof.value
        record = run.record.cgroup
        if record is not None:
            with Cgroup.open(record.path, record.inode) as cgroup:
                cgroup.remove(_SETTLE_S)
    except AlreadyGone:
        return "gone"
    except SpurprocError as error:
        return f"not known: {error}"
    return proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """What came of it: whether nothing lives any more, and what was seen, in words."""

    proven: bool
    words: str


def fence_lost(attempt: Attempt, plan: KillPlan, *, timeout_s: float) -> Fenced:
    """End the tree of one that nobody supervises: by the cgroup that was noted as its own, and by nothing else.

    Blocks as long as the plan takes, `timeout_s` at most. Its supervisor is the one that was noted with the cgroup: while that
    may live, whether the tree is complete, and what is done to it, is its business.
    """
    trace = attempt.trace
    if not trace.is_of(attempt.id) or trace.cgroup is None:
        return Fenced(proven=False, words="nothing is noted that tells its processes from others")
    supervisor = trace.supervisor
    if supervisor is not None and (seen := supervisor.observe()).liveness is not Liveness.GONE:
        return Fenced(proven=False, words=f"its supervisor, process {supervisor.pid}, is {seen.liveness.value}: {seen.detail}")
    try:
        words = _fence_cgroup(trace, plan, timeout_s=timeout_s)
    except SpurprocError as error:
        words = str(error)
    return Fenced(proven=trace.is_gone, words=words)


def clear_cgroup(trace: Trace) -> None:
    """Remove the cgroup of one that is gone: who made it is so too. One that cannot be removed is left, empty. Blocks."""
    record = trace.cgroup
    if record is not None:
        with suppress(SpurprocError), Cgroup.open(record.path, record.inode) as cgroup:
            cgroup.remove(_SETTLE_S)


def _fence_cgroup(trace: Trace, plan: KillPlan, *, timeout_s: float | None = None) -> str:
    record = trace.cgroup
    assert record is not None  # noqa: S101 - asked before
    if record.observe().liveness is Liveness.GONE:
        return "gone"
    with Cgroup.open(record.path, record.inode) as cgroup:
        return _walk(ProcessTree(cgroup=cgroup), plan, timeout_s=timeout_s)


def _walk(tree: ProcessTree, plan: KillPlan, *, timeout_s: float | None = None) -> str:
    report = terminate_tree(tree, plan, timeout_s=timeout_s)
    names = "; ".join(map(str, report.survivors))
    return f"{report.proof.value}{': ' + names if names else ''}"
