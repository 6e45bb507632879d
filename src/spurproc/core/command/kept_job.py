"""A job below a keeper: where no cgroup may be made."""

from __future__ import annotations

import errno
import os
import select
import signal
from contextlib import suppress
from dataclasses import replace

from spurproc.core._native import lib
from spurproc.core.cgroup.events import RECHECK_S
from spurproc.core.command.job import KILL_TIMEOUT_S, is_closed, reap
from spurproc.core.deadline import deadline_after, left_s, shortest_s
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.core.interrupts import SignalsHeld
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.recorded.channel import RecorderChannel
from spurproc.core.recorded.record import parse_usage
from spurproc.core.recorded.watch import Watch, wait_for
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.plan_layout import RecorderPart
from spurproc.core.spawn.spawn import Spawned, begin
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.spawn.starting import Starting
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import Containment, ProcessTree
from spurproc.core.tree.termination import KILL_ALL, KillPlan, Proof, TerminationReport, terminate_tree
from spurproc.errors import AlreadyGone, IdentityUnreadable, Unsupported, WaitTimeout

__all__ = ["KeptJob"]

_KEEPER_END_S = 0.1
_KILL_WALKS = 10


class KeptJob:
    """Our child is a keeper: a recorder without a folder. The leader is its child, and all orphans of the tree become so.

    The proof is the keeper's word that it has no child left. Killed by the job, it cannot give it: the job is lost.
    """

    containment = Containment.DESCENDANTS

    def __init__(self) -> None:
        self._nonce = os.urandom(16).hex()
        self._starting: Starting | None = None
        self._keeper: Spawned | None = None
        self._channel: RecorderChannel | None = None
        self._pidfd: Pidfd | None = None
        self._leader: Leader | None = None

    def start(self, plan: SpawnPlan, timeout_s: float) -> None:
        """See Job."""
        part = RecorderPart(
            folder_fd=-1, lock_fd=-1, containment=lib.SPUR_CONTAINMENT_DESCENDANTS, nonce=self._nonce.encode("ascii")
        )
        held = SignalsHeld()
        try:
            self._starting, self._keeper = begin(replace(plan, cgroup=None, detach=False), recorder=part)
            self._channel = RecorderChannel(self._starting.take_channel())
        finally:
            held.release()
        self._channel.commit()
        self._confirm(self._starting, self._channel, deadline_after(timeout_s))

    def _confirm(self, starting: Starting, channel: RecorderChannel, deadline: float | None) -> None:
        while not channel.decided:
            wait_s = shortest_s(RECHECK_S, left_s(deadline))
            if not wait_s:
                raise starting.failure(SpawnStage(channel.stage), errno.ETIMEDOUT)
            wait_for(Watch(entries=((channel.fileno(), select.POLLIN),), timeout_s=wait_s))
            self._continue_keeper()
            self._receive()
        # Killed with its leader past the gate, it leaves open whether that was exec'd: a job that is lost.
        if not channel.launched and not (channel.why and self._pidfd is not None):
            raise starting.failure(SpawnStage(channel.stage), channel.error, channel.why)

    def _continue_keeper(self) -> None:
        """Stopped by the job, it would neither reap nor speak. Where nobody can be signalled, it stays so, and is no proof."""
        if self._keeper is not None:
            with suppress(AlreadyGone, Unsupported):
                self._keeper.pidfd.send_signal(signal.SIGCONT)

    def _receive(self) -> RecorderChannel:
        """The channel, with all that was said on it; the leader is named as soon as it is held."""
        if self._channel is None:
            raise AlreadyGone(errno.ESRCH, "cannot use the job: it was not started")
        self._channel.receive()
        if self._pidfd is None:
            self._pidfd = self._channel.take_leader()
        if self._leader is None and self._pidfd is not None:
            with suppress(AlreadyGone, IdentityUnreadable):  # its keeper has reaped it
                self._leader = Leader(identity=ProcessIdentity.of_pidfd(self._pidfd), pidfd=self._pidfd)
        return self._channel

    def leader_entries(self) -> list[tuple[int, int]]:
        """See Job. Its own pidfd too: a keeper that was stopped or killed says nothing."""
        entries = [] if self._pidfd is None else [(self._pidfd.fileno(), select.POLLIN)]
        return entries + self.empty_entries()

    def leader_ended(self) -> bool:
        """See Job."""
        channel = self._receive()
        if self._pidfd is None:
            return channel.wait_status is not None or channel.ended
        return channel.wait_status is not None or self._pidfd.liveness() is Liveness.GONE

    def empty_entries(self) -> list[tuple[int, int]]:
        """See Job."""
        channel = self._receive()
        return [] if channel.ended else [(channel.fileno(), select.POLLIN)]

    def is_empty(self) -> bool:
        """See Job. A keeper that has said why no job was started has taken its leader's gate along."""
        if self._channel is None:
            return self._keeper is None
        channel = self._receive()
        return channel.empty or (channel.ended and not channel.launched and not channel.why)

    def is_lost(self) -> bool:
        """See Job."""
        return self._channel is not None and self._receive().ended and not self.is_empty()

    def terminate(self, plan: KillPlan, *, timeout_s: float | None = None) -> TerminationReport:
        """See Job. A walk finds nobody where one forks fast: then it is done again, until the keeper's word comes."""
        if self._keeper is None:
            raise AlreadyGone(errno.ESRCH, "cannot end the job: it was not started")
        self._continue_keeper()
        tree = ProcessTree(leader=self._leader, subreaper=self._keeper.identity)
        kills = any(sig == signal.SIGKILL for sig, _ in plan.steps)
        for walks_left in reversed(range(_KILL_WALKS if kills else 1)):
            report = terminate_tree(tree, plan, timeout_s=timeout_s)
            if report.proof is Proof.NOT_EMPTY:
                return report
            if self._empty_within(_KEEPER_END_S):
                return replace(report, proof=Proof.NO_DESCENDANTS)
            if not walks_left or self._channel is None or self.is_lost():
                return replace(report, proof=Proof.NONE_FOUND)
        raise AssertionError("unreachable")

    def _empty_within(self, span_s: float) -> bool:
        deadline = deadline_after(span_s)
        while self._channel is not None and not self.is_empty() and not self.is_lost():
            wait_s = left_s(deadline)
            if wait_s == 0:
                return False
            wait_for(Watch(entries=tuple(self.empty_entries()), timeout_s=wait_s))
        return self.is_empty()

    def _given_up(self) -> bool:
        """Whether nothing is left to be killed. A keeper whose job did not start says that nobody is left a moment later."""
        channel = self._channel
        settled = channel is not None and channel.decided and not channel.launched and not channel.why
        return self._empty_within(_KEEPER_END_S) if settled else self.is_empty()

    def end(self) -> ExitInfo:
        """See Job."""
        channel = self._receive()
        if channel.wait_status is not None:
            usage = parse_usage(channel.usage or b"", self._nonce)
            return ExitInfo.from_wait_status(channel.wait_status, source=ExitSource.WAITED, usage=usage)
        if self._pidfd is not None and channel.launched:
            return reap(self._pidfd)
        return ExitInfo.unknown("the keeper was killed before the job had ended")

    def close(self) -> TerminationReport | None:
        """See Job."""
        if self._starting is not None:
            self._starting.close()
        report = None
        if self._keeper is not None and not is_closed(self._keeper.pidfd):
            report = None if self._given_up() else self.terminate(KILL_ALL, timeout_s=KILL_TIMEOUT_S)
            with suppress(AlreadyGone, Unsupported):
                self._keeper.pidfd.send_signal(signal.SIGKILL)
            with suppress(WaitTimeout):
                self._keeper.pidfd.wait(KILL_TIMEOUT_S)
            self._keeper.pidfd.close()
        for part in (self._channel, self._pidfd):
            if part is not None:
                part.close()
        self._keeper = self._channel = self._pidfd = self._leader = None
        return report
