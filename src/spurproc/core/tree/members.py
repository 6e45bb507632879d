"""A process tree, what holds it together, and who is in it now."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.process_walk import Descent, GroupOf, ProcessRow, read_process, unique
from spurproc.errors import InvalidArgument, SpurprocError

__all__ = ["Containment", "ProcessTree", "members"]


class Containment(enum.Enum):
    """What holds a tree together, strongest first."""

    CGROUP = "cgroup"
    """Members cannot leave it unless somebody with rights moves them."""
    DESCENDANTS = "descendants"
    """All below a subreaper, as long as that lives."""
    PROCESS_GROUP = "process group"
    """The leader's group and session: a member that calls setsid(2) is out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTree:
    """The parts by which a tree is reached; all are borrowed.

    `leader`: the process that was exec'd. `cgroup` is the tree's own. `subreaper`: its descendants belong to the tree, itself
    does not. `joined`: whether the leader is known to have entered the cgroup; before that, an empty cgroup says nothing.
    """

    leader: Leader | None = None
    cgroup: Cgroup | None = None
    subreaper: ProcessIdentity | None = None
    joined: bool = True

    def __post_init__(self) -> None:
        if self.leader is None and self.cgroup is None and self.subreaper is None:
            raise InvalidArgument("cannot make a process tree of nothing: neither leader, cgroup nor subreaper")

    @property
    def containment(self) -> Containment:
        """The strongest thing that holds it together."""
        if self.cgroup is not None:
            return Containment.CGROUP
        return Containment.PROCESS_GROUP if self.subreaper is None else Containment.DESCENDANTS

    def leader_liveness(self) -> Liveness:
        """The leader's; GONE where there never was one."""
        return Liveness.GONE if self.leader is None else self.leader.liveness()


def members(tree: ProcessTree) -> list[ProcessRow]:
    """The living members that can be seen now, by every way that applies, the caller excluded. For looking, not for signalling.

    A process in the cgroup whose stat cannot be read is left out. Does not block.
    """
    rows: list[ProcessRow] = []
    if tree.cgroup is not None:
        rows.extend(_cgroup_rows(tree.cgroup))
    if tree.subreaper is not None:
        rows.extend(Descent(tree.subreaper).find())
    if tree.leader is not None:
        with GroupOf(tree.leader.identity, tree.leader.pidfd) as group:
            rows.extend(group.find())
    return [row for row in unique(rows) if row.pid != os.getpid()]


def _cgroup_rows(cgroup: Cgroup) -> list[ProcessRow]:
    try:
        pids = cgroup.pids()
    except SpurprocError:
        return []
    return [row for row in map(read_process, pids) if row is not None]
