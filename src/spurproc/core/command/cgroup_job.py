"""A job in a cgroup of its own."""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from dataclasses import replace

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.folder import process_path
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.cgroup.step import make_step
from spurproc.core.command.job import KILL_TIMEOUT_S, is_closed, reap
from spurproc.core.exit_info import ExitInfo
from spurproc.core.interrupts import SignalsHeld
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import begin
from spurproc.core.spawn.starting import Starting
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.process_walk import read_processes
from spurproc.core.tree.termination import KILL_ALL, KillPlan, TerminationReport, terminate_tree
from spurproc.errors import AlreadyGone, Busy, SpurprocError

__all__ = ["CgroupJob"]

_REMOVE_TIMEOUT_S = 2.0


class CgroupJob:
    """The leader is our child and was born in a fresh cgroup."""

    containment = Containment.CGROUP

    def __init__(self, root: CgroupRoot) -> None:
        self._root = root
        self._name = os.urandom(16).hex()
        self._cgroup: Cgroup | None = None
        self._gate_fd = -1
        self._starting: Starting | None = None
        self._leader: Leader | None = None
        self._is_unheld = False

    def start(self, plan: SpawnPlan, timeout_s: float) -> None:
        """See Job. The leader stands at a gate until it is held here."""
        self._cgroup = make_step(self._root, self._name)
        gate_fd, self._gate_fd = os.pipe2(os.O_CLOEXEC)
        try:
            self._begin(replace(plan, cgroup=self._cgroup, detach=False), gate_fd).confirm(timeout_s)
        except SpurprocError:
            self._leader = None  # reaped, and let go of
            raise

    def _begin(self, plan: SpawnPlan, gate_fd: int) -> Starting:
        self._is_unheld = True
        held = SignalsHeld()
        try:
            self._starting, spawned = begin(plan, gate_fd=gate_fd)
            self._leader = Leader(identity=spawned.identity, pidfd=spawned.pidfd)
            self._is_unheld = False
        except SpurprocError:
            self._is_unheld = False
            raise
        finally:
            os.close(gate_fd)
            held.release()
        with suppress(BrokenPipeError):  # it has failed before
            os.write(self._gate_fd, b"\0")
        return self._starting

    @property
    def _held(self) -> tuple[Cgroup, Pidfd]:
        if self._cgroup is None or self._leader is None or self._leader.pidfd is None:
            raise AlreadyGone(errno.ESRCH, "cannot use the job: it was not started")
        return self._cgroup, self._leader.pidfd

    @property
    def _tree(self) -> ProcessTree:
        return ProcessTree(leader=self._leader, cgroup=self._cgroup)

    def leader_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        return [(self._held[1].fileno(), select.POLLIN)]

    def leader_ended(self) -> bool:
        """See Job."""
        return self._leader is None or self._leader.liveness() is Liveness.GONE

    def empty_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        return [(self._held[0].events().fileno(), select.POLLPRI)]

    def is_empty(self) -> bool:
        """See Job."""
        return self._cgroup is None or (self._cgroup.liveness() is Liveness.GONE and self.leader_ended())

    def is_lost(self) -> bool:
        """See Job."""
        return False

    def terminate(self, plan: KillPlan, *, timeout_s: float | None = None) -> TerminationReport:
        """See Job."""
        return terminate_tree(self._tree, plan, timeout_s=timeout_s)

    def end(self) -> ExitInfo:
        """See Job."""
        cgroup, leader = self._held
        end = reap(leader)
        try:
            return replace(end, oom_kills=cgroup.oom_kills())
        except SpurprocError:
            return end  # known, but for this

    def close(self) -> TerminationReport | None:
        """See Job."""
        gate_fd, self._gate_fd = self._gate_fd, -1
        if gate_fd >= 0:
            os.close(gate_fd)  # who stands there ends
        if self._starting is not None:
            self._starting.close()
        if self._cgroup is None:
            with suppress(OSError):
                os.rmdir(f"{self._root.steps}/{self._name}")  # made, but not held yet; or it is not there
            return None
        cgroup, report = self._cgroup, self._kill(self._cgroup)
        self._cgroup = None  # first: after an interrupt in between, another call must not ask a closed one
        cgroup.close()
        return report

    def _kill(self, cgroup: Cgroup) -> TerminationReport | None:
        if self._leader is not None and is_closed(self._leader.pidfd):
            self._leader = None  # the start was being given up when an interrupt came
        report = None if self.is_empty() else self.terminate(KILL_ALL, timeout_s=KILL_TIMEOUT_S)
        if self._leader is not None and self._leader.pidfd is not None:
            reap(self._leader.pidfd)
            self._leader.pidfd.close()
            self._leader = None
        if self._is_unheld:
            _reap_members(cgroup)
        with suppress(Busy):  # somebody in it could not be killed, and the report says so
            cgroup.remove(_REMOVE_TIMEOUT_S if report is None or report.empty else 0.0)
        return report


def _reap_members(cgroup: Cgroup) -> None:
    """Reap the child that an interrupt kept from being held: a zombie still names the cgroup in which it ended."""
    name = cgroup.kernel_path()
    for row in read_processes().values():
        if row.parent_pid == os.getpid() and row.ended and name is not None and process_path(row.pid) == name:
            os.waitid(os.P_PID, row.pid, os.WEXITED | os.WNOHANG)
