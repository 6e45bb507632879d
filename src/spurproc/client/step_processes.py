"""The processes of a step, found by what its descriptor says: its cgroup by inode, its leader by identity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from spurproc.client.place import OpenedStep
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.observation import Liveness, Observation
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.liveness import tree_liveness
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, SpurprocError, Unsupported
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.journal_record import History

__all__ = ["held_tree", "observe_processes"]


@contextmanager
def held_tree(descriptor: Descriptor | None) -> Iterator[ProcessTree | None]:
    """All that can be reached of it, held; None where nothing is recorded, or a cgroup that is gone was all there was.

    Raises what keeps its cgroup from being opened: a tree without it would be another one.
    """
    if descriptor is None:
        yield None
        return
    cgroup = None if descriptor.cgroup is None else _same(descriptor.cgroup)
    leader = None if descriptor.leader is None else Leader(identity=descriptor.leader)
    try:
        if cgroup is None and leader is None:
            yield None
        else:
            joined = descriptor.joined or descriptor.runtime_id.is_extern  # which has no leader that could still come
            yield ProcessTree(leader=leader, cgroup=cgroup, subreaper=_subreaper(descriptor), joined=joined)
    finally:
        if cgroup is not None:
            cgroup.close()


def _subreaper(descriptor: Descriptor) -> ProcessIdentity | None:
    """The supervisor, while it lives, where its descendants are the tree."""
    if descriptor.containment is not Containment.DESCENDANTS or descriptor.supervisor.liveness() is not Liveness.ALIVE:
        return None
    return descriptor.supervisor


def _same(record: CgroupRecord) -> Cgroup | None:
    """None once that very cgroup is gone, whatever stands at its path now."""
    try:
        return Cgroup.open(record.path, record.inode)
    except AlreadyGone:
        seen = record.observe()
        if seen.liveness is Liveness.GONE:
            return None
        raise Unsupported(f"cannot reach the cgroup of the step from here: {seen.detail}") from None


def observe_processes(opened: OpenedStep, descriptor: Descriptor | None, history: History) -> Observation:
    """Whether anything of it lives, as seen from here. Does not block."""
    if opened.launch.boot_id != read_boot_id():
        return Observation(liveness=Liveness.GONE, evidence="boot", detail="it was launched in another boot")
    if history.emptied is not None:
        return Observation(liveness=Liveness.GONE, evidence="emptied", detail=f"recorded: {history.emptied.proof.value}")
    if descriptor is None:
        if history.end is not None:
            return Observation(
                liveness=Liveness.GONE, evidence="not-started", detail="it had no process when its end was recorded"
            )
        return Observation(liveness=Liveness.UNKNOWN, evidence="no descriptor", detail="nobody has said yet who runs it")
    try:
        with held_tree(descriptor) as tree:
            return _observe(descriptor, tree)
    except SpurprocError as error:
        return Observation(liveness=Liveness.UNKNOWN, evidence="unreadable", detail=str(error))


def _observe(descriptor: Descriptor, tree: ProcessTree | None) -> Observation:
    if tree is None:
        seen = None if descriptor.cgroup is None else descriptor.cgroup.observe()
        return seen or Observation(liveness=Liveness.UNKNOWN, evidence="no leader", detail="no process of it is recorded")
    seen = tree_liveness(tree)
    if tree.cgroup is None and seen.liveness is Liveness.ALIVE:
        return replace(seen, escaped=descriptor.cgroup is not None)
    if descriptor.cgroup is None and tree.subreaper is None and seen.liveness is Liveness.GONE:
        detail = f"{seen.detail}; whoever else descended from the supervisor that began it is not found any more"
        return Observation(liveness=Liveness.UNKNOWN, evidence="descendants", detail=detail)
    return seen
