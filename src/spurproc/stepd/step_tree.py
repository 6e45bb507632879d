"""The processes of one step: its cgroup, its leader, and whatever descends from its supervisor."""

from __future__ import annotations

import os
import signal as _signal
from contextlib import suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.cgroup.signal_report import SignalReport
from spurproc.core.cgroup.step import keep_step, make_step
from spurproc.core.cgroup.usage import CgroupUsage, read_usage
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.signalling import signal_tree
from spurproc.errors import SpurprocError, Unsupported, WaitTimeout, from_errno
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.launch_record import LaunchRecord

__all__ = ["StepTree"]

_FREEZE_WITHIN_S = 0.5


class StepTree:
    """Owns the cgroup. `leader` is set by who starts it, or by `inherit` to one that is not our child."""

    def __init__(self, supervisor: ProcessIdentity) -> None:
        self.cgroup: Cgroup | None = None
        self.leader: Leader | None = None
        self.not_enforced: tuple[str, ...] = ()
        """The files of the limits that were asked for, and hold nobody here."""
        self._subreaper: ProcessIdentity | None = supervisor
        self._removed = False

    def make_cgroup(self, launch: LaunchRecord, root: CgroupRoot | None) -> None:
        """A fresh one under its limits, if the step is to have one. Raises Unsupported where that is required and cannot be."""
        if launch.containment is Containment.DESCENDANTS or (root is None and launch.containment is None):
            self._without_limits(launch)
            return
        if root is None:
            raise Unsupported("cannot contain the step in a cgroup: there is no cgroup2 folder here that this process may write")
        self.cgroup = make_step(root, f"{launch.runtime_id}-{os.urandom(4).hex()}")
        self.not_enforced = self.cgroup.set_limits(launch.cgroup_limits, required=launch.limits_required)

    def _without_limits(self, launch: LaunchRecord) -> None:
        self.not_enforced = tuple(limit.file for limit in launch.cgroup_limits)
        if self.not_enforced and launch.limits_required:
            raise Unsupported(f"cannot set {', '.join(self.not_enforced)}: the step has no cgroup here")

    def keep_cgroup(self) -> None:
        """It is on record: from now on it stays until it is removed."""
        if self.cgroup is not None:
            keep_step(self.cgroup)

    def cgroup_record(self) -> CgroupRecord | None:
        """What is written down of it."""
        return None if self.cgroup is None else self.cgroup.record()

    def inherit(self, before: Descriptor) -> None:
        """What another supervisor has left: nothing of it descends from here. A cgroup that is gone had nobody left in it.

        Raises what keeps one from being opened that may be there: without it nobody could say that the tree is empty.
        """
        self._subreaper = None
        self.not_enforced = before.not_enforced
        if before.leader is not None:
            self.leader = Leader(identity=before.leader)
        if before.cgroup is not None and self.cgroup is None:
            try:
                self.cgroup = Cgroup.open(before.cgroup.path, before.cgroup.inode)
            except SpurprocError:
                self._removed = before.cgroup.liveness() is Liveness.GONE
                if not self._removed:
                    raise

    def whole(self) -> ProcessTree | None:
        """All that is reached; None for nothing at all: neither a leader nor a cgroup, or both are proven to be gone."""
        over = self._removed and (self.leader is None or self.leader.liveness() is Liveness.GONE)
        if over or (self.cgroup is None and self.leader is None and self._subreaper is None):
            return None
        return ProcessTree(leader=self.leader, cgroup=self.cgroup, subreaper=self._subreaper)

    def signal(self, number: int) -> SignalReport | None:
        """One signal to all of it; None where there is nobody. Raises as `signal_tree`."""
        tree = self.whole()
        return None if tree is None else signal_tree(tree, number)

    def freeze(self) -> None:
        """Stop all of it from running. Who sleeps uninterruptibly freezes when it wakes up.

        Raises NotPermitted, and the like, where somebody runs on.
        """
        if self.cgroup is None:
            report = self.signal(_signal.SIGSTOP)
            for refusal in () if report is None else report.refused:
                raise from_errno(refusal.errno, "stop", f"process {refusal.pid}")
            return
        with suppress(WaitTimeout):
            self.cgroup.freeze(_FREEZE_WITHIN_S)

    def thaw(self) -> None:
        """Undo `freeze`."""
        if self.cgroup is None:
            self.signal(_signal.SIGCONT)
        else:
            self.cgroup.thaw()

    def oom_kills(self) -> int | None:
        """As `Cgroup.oom_kills`; None without one."""
        return None if self.cgroup is None else self.cgroup.oom_kills()

    def usage(self) -> CgroupUsage | None:
        """What all of it has used; None without a cgroup."""
        return None if self.cgroup is None else read_usage(self.cgroup)

    def remove_cgroup(self, timeout_s: float = 0.0) -> bool:
        """Whether it is gone; an empty one can be busy for some milliseconds more. One that stays is found by its record."""
        if self.cgroup is not None:
            try:
                self.cgroup.remove(timeout_s)
            except SpurprocError:
                return False
        return True
