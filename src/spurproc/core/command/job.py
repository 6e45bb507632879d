"""A job as `run` holds it: a child of ours whose whole tree can be ended and proven gone, in a cgroup or under a keeper."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from spurproc.core._native import lib
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.channel import RecorderChannel
from spurproc.core.recorded.record import parse_usage
from spurproc.core.recorded.watch import Watch, wait_for
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.plan_layout import RecorderPart
from spurproc.core.spawn.spawn import Spawned, begin, spawn
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.spawn.starting import Starting
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.termination import KillPlan, Proof, TerminationReport, terminate_tree
from spurproc.errors import AlreadyGone, Busy, IdentityUnreadable

__all__ = ["CgroupJob", "Job", "KeptJob"]

KILL_ALL = KillPlan(steps=((signal.SIGKILL, None),))
_REMOVE_TIMEOUT_S = 2.0
_KEEPER_ROUND_S = 0.1
_ROUNDS = 10


class Job(Protocol):
    """What `run` asks of either kind. After `close` the tree is gone, or `terminate` has said what is not."""

    containment: Containment

    def start(self, plan: SpawnPlan, timeout_s: float) -> None:
        """Start it; its exec is confirmed. Raises SpawnError."""

    def leader_entries(self) -> list[tuple[int, int]]:
        """What to poll for the leader's end."""

    def leader_ended(self) -> bool:
        """Whether it has. Does not block."""

    def empty_entries(self) -> list[tuple[int, int]]:
        """What to poll for the end of the tree; the kernel may tell some milliseconds late, so look now and then."""

    def is_empty(self) -> bool:
        """Whether nothing of the tree lives: proven. Does not block."""

    def is_lost(self) -> bool:
        """Whether that cannot be proven any more. Does not block."""

    def terminate(self, plan: KillPlan) -> TerminationReport:
        """`terminate_tree` on all of it; empty only where `is_empty`."""

    def end(self) -> ExitInfo:
        """How the leader ended; reaps our child."""

    def close(self) -> None:
        """Let go. May be called twice, and before `start` has returned: then what was started is ended first."""


class CgroupJob:
    """The leader is our child and was born in a fresh cgroup."""

    containment = Containment.CGROUP

    def __init__(self, root: CgroupRoot) -> None:
        self._cgroup = Cgroup.create(f"{root.steps}/{os.urandom(16).hex()}")
        self._spawned: Spawned | None = None

    def start(self, plan: SpawnPlan, timeout_s: float) -> None:
        """See Job."""
        self._spawned = spawn(replace(plan, cgroup=self._cgroup, detach=False), timeout_s=timeout_s)

    @property
    def _leader(self) -> Spawned:
        if self._spawned is None:
            raise AlreadyGone(errno.ESRCH, "cannot use the job: it was not started")
        return self._spawned

    @property
    def _tree(self) -> ProcessTree:
        if self._spawned is None:
            return ProcessTree(cgroup=self._cgroup)
        return ProcessTree(leader=self._spawned.identity, leader_pidfd=self._spawned.pidfd, cgroup=self._cgroup)

    def leader_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        return [(self._leader.pidfd.fileno(), select.POLLIN)]

    def leader_ended(self) -> bool:
        """See Job."""
        return self._leader.pidfd.liveness() is Liveness.GONE

    def empty_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        return [(self._cgroup.events().fileno(), select.POLLPRI)]

    def is_empty(self) -> bool:
        """See Job."""
        return self._cgroup.liveness() is Liveness.GONE and self.leader_ended()

    def is_lost(self) -> bool:
        """See Job."""
        return False

    def terminate(self, plan: KillPlan) -> TerminationReport:
        """See Job."""
        return terminate_tree(self._tree, plan)

    def end(self) -> ExitInfo:
        """See Job."""
        if not self.leader_ended():
            return ExitInfo.unknown("it could not be killed")
        info = self._leader.pidfd.wait()
        return replace(info, oom_kills=self._cgroup.oom_kills())

    def close(self) -> None:
        """See Job."""
        if self._cgroup.fileno() < 0:
            return
        if self._cgroup.liveness() is not Liveness.GONE:
            terminate_tree(self._tree, KILL_ALL)
        if self._spawned is not None:
            if self.leader_ended():
                self._spawned.pidfd.wait()
            self._spawned.pidfd.close()
        with suppress(Busy):  # somebody in it could not be killed, and the report says so
            self._cgroup.remove(_REMOVE_TIMEOUT_S)
        self._cgroup.close()


class KeptJob:
    """Our child is a keeper: a recorder without a folder. The leader is its child, and all orphans of the tree become so."""

    containment = Containment.DESCENDANTS

    def __init__(self) -> None:
        self._nonce = os.urandom(16).hex()
        self._keeper: Spawned | None = None
        self._channel: RecorderChannel | None = None
        self._leader: Pidfd | None = None
        self._identity: ProcessIdentity | None = None

    def start(self, plan: SpawnPlan, timeout_s: float) -> None:
        """See Job."""
        part = RecorderPart(
            folder_fd=-1, lock_fd=-1, containment=lib.SPUR_CONTAINMENT_DESCENDANTS, nonce=self._nonce.encode("ascii")
        )
        starting, self._keeper = begin(replace(plan, cgroup=None, detach=False), recorder=part)
        self._channel = RecorderChannel(starting.take_channel())
        self._channel.commit()
        self._confirm(starting, self._channel, time.monotonic() + timeout_s)

    def _confirm(self, starting: Starting, channel: RecorderChannel, deadline: float) -> None:
        while not channel.decided:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise starting.failure(SpawnStage(channel.stage), errno.ETIMEDOUT)
            wait_for(Watch(entries=((channel.fileno(), select.POLLIN),), timeout_s=left_s))
            self._receive()
        if not channel.launched:
            raise starting.failure(SpawnStage(channel.stage), channel.error, channel.why)

    def _receive(self) -> None:
        """What the keeper has said. Its leader is held, and known, as soon as it is named."""
        self._reports.receive()
        leader = self._reports.take_leader()
        if leader is not None:
            self._leader = leader
            with suppress(IdentityUnreadable, AlreadyGone):
                self._identity = ProcessIdentity.of_pidfd(leader)

    @property
    def _reports(self) -> RecorderChannel:
        if self._channel is None:
            raise AlreadyGone(errno.ESRCH, "cannot use the job: it was not started")
        return self._channel

    def leader_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        if self._reports.ended and self._leader is not None:
            return [(self._leader.fileno(), select.POLLIN)]
        return [(self._reports.fileno(), select.POLLIN)]

    def leader_ended(self) -> bool:
        """See Job."""
        self._receive()
        if self._reports.wait_status is not None or not self._reports.ended:
            return self._reports.wait_status is not None
        return self._leader is None or self._leader.liveness() is Liveness.GONE  # the keeper was killed: the leader goes on

    def empty_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        return [] if self._reports.ended else self.leader_entries()

    def is_empty(self) -> bool:
        """See Job."""
        self._receive()
        return self._reports.empty

    def is_lost(self) -> bool:
        """See Job."""
        return self._reports.ended and not self._reports.empty

    @property
    def _tree(self) -> ProcessTree:
        """The leader's group too: without a keeper it is all that can be found."""
        keeper = None if self._keeper is None else self._keeper.identity
        return ProcessTree(leader=self._identity, leader_pidfd=self._leader, subreaper=keeper)

    def terminate(self, plan: KillPlan) -> TerminationReport:
        """See Job. Walks that find nobody prove nothing of who forks faster than they look: only the keeper's ECHILD does."""
        self._wake_keeper()
        report = terminate_tree(self._tree, plan)
        for _ in range(_ROUNDS):
            if report.proof is Proof.NOT_EMPTY or self._keeper_says_empty() or self.is_lost():
                break
            report = terminate_tree(self._tree, plan)
        if report.proof is Proof.NOT_EMPTY:
            return report
        return replace(report, proof=Proof.NO_DESCENDANTS if self.is_empty() else Proof.NONE_FOUND)

    def _wake_keeper(self) -> None:
        """The job may have stopped it: as its user it may do that."""
        if self._keeper is not None:
            with suppress(AlreadyGone):
                self._keeper.pidfd.send_signal(signal.SIGCONT)

    def _keeper_says_empty(self) -> bool:
        """Blocks for a moment: it says so right after the last one's end."""
        if not self.is_empty() and not self._reports.ended:
            wait_for(Watch(entries=tuple(self.empty_entries()), timeout_s=_KEEPER_ROUND_S))
        return self.is_empty()

    def end(self) -> ExitInfo:
        """See Job."""
        status, usage = self._reports.wait_status, self._reports.usage
        if status is not None:
            return ExitInfo.from_wait_status(status, source=ExitSource.WAITED, usage=parse_usage(usage or b"", self._nonce))
        if self._leader is not None and self._reports.launched and self._leader.liveness() is Liveness.GONE:
            return self._leader.wait()
        return ExitInfo.unknown("the keeper was killed before the job had ended")

    def close(self) -> None:
        """See Job."""
        if self._keeper is not None and self._channel is not None:
            if not self.is_empty():
                self.terminate(KILL_ALL)
            if not self.is_empty():
                with suppress(AlreadyGone):
                    self._keeper.pidfd.send_signal(signal.SIGKILL)
            self._keeper.pidfd.wait()
            self._keeper.pidfd.close()
            self._channel.close()
        elif self._keeper is not None:  # interrupted before it was let go on: its leader ends at the gate
            self._keeper.pidfd.send_signal(signal.SIGKILL)
            self._keeper.pidfd.wait()
            self._keeper.pidfd.close()
        if self._leader is not None:
            self._leader.close()
        self._keeper = self._channel = self._leader = None
