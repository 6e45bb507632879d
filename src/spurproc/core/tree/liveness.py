"""The liveness of a whole tree, and of many things at once."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Protocol

from spurproc.core._native import check, ffi, lib
from spurproc.core.observation import LIVENESS_OF_CODE, Liveness, Observation
from spurproc.core.process.identity import reader
from spurproc.core.process.pidfd import SUBJECT
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.process_walk import Descent, GroupOf, proc_shows_all
from spurproc.errors import IdentityUnreadable, SystemCallError

__all__ = ["Subject", "liveness_many", "tree_liveness"]

_PACKED = attrgetter("packed")
_EVENTS_FD = attrgetter("events_fd")
_DESCRIPTORS = ffi.typeof("int[]")
_CODES = ffi.typeof("unsigned char[]")
_NOT_PACKED = SUBJECT.pack(lib.SPUR_SUBJECT_NONE, -1, 0, 0, 0, 0, b"")


class Subject(Protocol):
    """What can be asked about: a ProcessIdentity, a Pidfd, a Cgroup, a CgroupRecord."""

    @property
    def packed(self) -> bytes:
        """A `spur_subject_t`; of the kind NONE when only `liveness` can tell."""
        ...

    def liveness(self) -> Liveness:
        """Its liveness, asked alone."""
        ...


def liveness_many(items: Iterable[Subject]) -> list[Liveness]:
    """The liveness of each item, in order; one call into the C core for all of them. Does not block.

    A closed Pidfd is UNKNOWN here, where its own `liveness()` raises. A CgroupRecord takes a few system calls more than what is
    held.
    """
    subjects = items if isinstance(items, list) else list(items)
    told = _ask(subjects)
    if told and told[0] != lib.SPUR_UNKNOWN and told.count(told[0]) == len(told):
        return [LIVENESS_OF_CODE[told[0]]] * len(told)  # most tables are of one mind: no need to look each up
    found = list(map(LIVENESS_OF_CODE.__getitem__, told))
    if lib.SPUR_UNKNOWN in told:
        for index, item in enumerate(subjects):
            if told[index] == lib.SPUR_UNKNOWN and item.packed == _NOT_PACKED:
                found[index] = item.liveness()
    return found


def _ask(subjects: list[Subject]) -> bytes:
    """One SPUR_ code each. For cgroups alone only their descriptors are gathered."""
    codes = ffi.new(_CODES, len(subjects))
    try:
        events_fds = list(map(_EVENTS_FD, subjects))
    except AttributeError:
        packed = b"".join(map(_PACKED, subjects))
        check(lib.spur_liveness_many(_reader(packed), packed, len(subjects), codes), "ask about", f"{len(subjects)} subjects")
    else:
        lib.spur_liveness_cgroups(ffi.new(_DESCRIPTORS, events_fds), len(subjects), codes)
    told: bytes = ffi.buffer(codes)[:]
    return told


def _reader(packed: bytes) -> Any:
    try:
        return reader()
    except IdentityUnreadable:  # no /proc: held descriptors need none, and no identity can be told
        blind: Any = ffi.new("spur_reader_t *")
        return blind


def tree_liveness(tree: ProcessTree) -> Observation:
    """Whether anything of the tree lives, with the evidence. Does not block.

    The cgroup decides when it is populated. Empty or removed, the leader may still live elsewhere: ALIVE, `escaped`. When the
    cgroup cannot tell, a leader that lives is enough for ALIVE, and one that is gone leaves UNKNOWN: others may be in there.
    When nobody is known to have joined it, the leader's identity decides. Without a cgroup, a gone leader leaves what can be
    found of its group and of a subreaper's descendants: weak containment says GONE only of what it can see.
    """
    try:
        return _observe_tree(tree)
    except SystemCallError as error:  # no descriptors left, say: a look that was not finished
        return Observation(liveness=Liveness.UNKNOWN, evidence="error", detail=str(error))


def _observe_tree(tree: ProcessTree) -> Observation:
    if tree.cgroup is None:
        return _observe_uncontained(tree)
    cgroup = tree.cgroup.observe()
    if cgroup.liveness is Liveness.ALIVE:
        return cgroup
    if cgroup.liveness is Liveness.UNKNOWN or not tree.joined:
        return _observe_leader_before_cgroup(tree, cgroup)
    return _observe_escape(tree, cgroup)


def _observe_leader_before_cgroup(tree: ProcessTree, cgroup: Observation) -> Observation:
    """The cgroup cannot tell, or its emptiness says nothing yet."""
    leader = _observe_leader(tree)
    if leader is None:
        detail = f"{cgroup.detail}, and there is no leader to ask"
    elif leader.liveness is Liveness.GONE and cgroup.liveness is Liveness.UNKNOWN:
        detail = f"{cgroup.detail}; the leader: {leader.detail}"
    else:
        return leader
    return Observation(liveness=Liveness.UNKNOWN, evidence=cgroup.evidence, detail=detail)


def _observe_leader(tree: ProcessTree) -> Observation | None:
    return None if tree.leader is None else tree.leader.observe()


def _observe_escape(tree: ProcessTree, cgroup: Observation) -> Observation:
    """The cgroup is empty or removed: GONE, unless the leader, or a descendant of the subreaper, is seen to live elsewhere."""
    leader = _observe_leader(tree)
    if leader is not None and leader.liveness is not Liveness.GONE:
        detail = f"{cgroup.detail}, but the leader: {leader.detail}"
        escaped = leader.liveness is Liveness.ALIVE
        return Observation(liveness=leader.liveness, evidence=leader.evidence, detail=detail, escaped=escaped)
    if tree.subreaper is not None and (left := len(Descent(tree.subreaper).find())):
        detail = f"{cgroup.detail}, but {left} descendants of the subreaper live elsewhere"
        return Observation(liveness=Liveness.ALIVE, evidence="descendants", detail=detail, escaped=True)
    return cgroup


def _observe_uncontained(tree: ProcessTree) -> Observation:
    leader = _observe_leader(tree)
    if leader is not None and leader.liveness is not Liveness.GONE:
        return leader
    if tree.subreaper is not None:
        return _observe_descent(tree.subreaper.pid, Descent(tree.subreaper))
    if tree.leader is None or leader is None:
        return Observation(liveness=Liveness.UNKNOWN, evidence="nothing", detail="there is nobody to ask about")
    with GroupOf(tree.leader.identity, tree.leader.pidfd) as group:
        left = len(group.find())
    if left:
        return Observation(liveness=Liveness.ALIVE, evidence="group", detail=f"{left} members of the leader's group live")
    return Observation(
        liveness=Liveness.GONE, evidence=leader.evidence, detail=f"the leader: {leader.detail}; its group is not seen"
    )


def _observe_descent(pid: int, descent: Descent) -> Observation:
    left = len(descent.find() or descent.find())  # one walk can miss who is handed to another parent meanwhile
    if left:
        return Observation(liveness=Liveness.ALIVE, evidence="descendants", detail=f"{left} descendants of process {pid} live")
    if not proc_shows_all():
        detail = f"/proc does not show all that process {pid} may have as descendants"
        return Observation(liveness=Liveness.UNKNOWN, evidence="hidden", detail=detail)
    if descent.root_lives():
        return Observation(liveness=Liveness.GONE, evidence="descendants", detail=f"process {pid} has no living descendants")
    # Without the subreaper the orphans went to another: nothing can be told of them.
    return Observation(
        liveness=Liveness.UNKNOWN, evidence="descendants", detail=f"process {pid}, the subreaper, is not seen to live"
    )
