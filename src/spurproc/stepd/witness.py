"""The host's watch over one step: its supervisor while that lives, and the end of its leader when it does not any more."""

from __future__ import annotations

import os
import select
from _socket import AF_UNIX, SOCK_STREAM, socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.durable.lock import FolderLock
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.passed_fds import receive_fds
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import REAP_GRACE_S, Pidfd
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.spawn.starting import read_progress
from spurproc.core.vantage import read_boot_id
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.launch_record import LaunchRecord
from spurproc.proto.owed import is_over
from spurproc.proto.step_folder import StepFolder
from spurproc.proto.takeover import NotYours, conclusion, never_started
from spurproc.stepd.forking import Forked
from spurproc.stepd.leader import end_of_leader
from spurproc.stepd.loop import Loop
from spurproc.stepd.records import StepRecords

__all__ = ["Witness"]

_NAME_BYTES = 512
_RETRY_FIRST_S, _RETRY_LAST_S = 0.01, 5.0


class Witness:
    """Owns the step's folder, the hold on its supervisor, and what that has handed over.

    `on_recorded(witness, over)` is called once the end is durable: `over` says whether anything is still owed. `on_lost`: there
    is nothing to watch over any more. `on_reaped`: there may be orphans that had to wait for it.
    """

    def __init__(
        self,
        loop: Loop,
        step: StepFolder,
        on_recorded: Callable[[Witness, bool], None],
        on_lost: Callable[[Witness], None],
        on_reaped: Callable[[], None],
    ) -> None:
        """Takes `step`."""
        self.step = step
        self._loop = loop
        self._on_recorded = on_recorded
        self._on_lost = on_lost
        self._on_reaped = on_reaped
        self._supervisor: Forked | None = None
        self._handed_over: ProcessIdentity | None = None
        """The leader, also where there was no room for the descriptors that came with its name."""
        self._leader: Pidfd | None = None
        self._leader_channel: socket | None = None
        self._retry_s = _RETRY_FIRST_S
        self.forked_here = False
        self.successors = 0
        """How many successors there have been, with the one that is watched."""
        self._rested = False

    @property
    def supervised(self) -> bool:
        """Whether a supervisor that was forked here lives."""
        return self._supervisor is not None

    def may_wait_for(self, pid: int) -> bool:
        """Whether that child, a zombie, is not the host's to reap: the supervisor, the leader, or one that may be the leader yet.

        What a supervisor that has died has handed over is not known before its channel was read to the end.
        """
        if self._supervisor is not None:
            return self._supervisor.pid == pid or _has_ended(self._supervisor.pid)
        return self._handed_over is not None and self._handed_over.pid == pid

    def watch_supervisor(self, forked: Forked) -> None:
        """From now on its death is noticed. Takes what `forked` holds."""
        self._supervisor = forked
        self.forked_here = True
        self._loop.watch(forked.channel.fileno(), select.EPOLLIN, self._receive)

    def hold_leader(self, leader: Pidfd) -> None:
        """Of a step whose supervisor and host are gone: not our child, but held before its end. Takes `leader`."""
        self._leader = leader

    def _receive(self, _: int) -> None:
        """What the supervisor has to say, one leader; and that it has ended: then no more will come."""
        if self._supervisor is None:
            return
        try:
            while name := self._receive_one(self._supervisor.channel):
                pass
        except BlockingIOError:
            return
        except OSError:
            name = b""
        if not name:
            self._supervisor_ended(self._supervisor)

    def _receive_one(self, channel: socket) -> bytes:
        name, fds = receive_fds(channel, _NAME_BYTES, 2)
        if name:
            self._take_leader(ProcessIdentity.from_text(name.decode("ascii")), *fds)
        return name

    def _take_leader(self, identity: ProcessIdentity, pidfd: int = -1, channel: int = -1) -> None:
        """Descriptors that there is no room for are lost on their way: both, or the second one."""
        self._handed_over = identity
        try:
            if channel >= 0:
                self._leader = Pidfd.take_fd(pidfd, identity.pid)
                self._leader_channel = socket(AF_UNIX, SOCK_STREAM, 0, channel)
        except SpurprocError:
            os.close(channel)
        if self._leader is None and pidfd >= 0:
            os.close(pidfd)

    def _supervisor_ended(self, supervisor: Forked) -> None:
        """Its channel was read to the end before any orphan is reaped: the next one may be its leader."""
        self._loop.forget(supervisor.channel.fileno())
        supervisor.channel.close()
        os.waitpid(supervisor.pid, 0)  # on its last steps, or a zombie
        self._supervisor = None
        self._on_reaped()
        self.await_leader()

    def await_leader(self) -> None:
        """Conclude once the leader has ended; at once where there is none."""
        if self._handed_over is not None and self._leader is None and not self._hold_child(self._handed_over):
            self.try_again()
        elif self._leader is not None and self._leader.liveness() is not Liveness.GONE:
            # Of one that is not our child the kernel keeps a record from its reap on; without a record its zombie has to do.
            grace_s = 0 if self.forked_here or not Facilities.current().pidfd_exit_info else REAP_GRACE_S
            self._loop.watch_end(self._leader, self._leader_ended, reap_grace_s=grace_s)
        else:
            self.conclude()

    def _hold_child(self, identity: ProcessIdentity) -> bool:
        """By its name, which is its own until it is reaped. False: there is no room for that yet."""
        try:
            self._leader = identity.open()
        except AlreadyGone:
            return True  # its supervisor has reaped it, once its end was recorded
        except SpurprocError:
            return False
        return True

    def _leader_ended(self) -> None:
        self.conclude()

    def conclude(self) -> None:
        """Record the end under the lock, unless it is recorded; reap only then. Tried again until it works."""
        try:
            lock = FolderLock.take(self.step.folder)
            if lock is None:
                self.try_again()
                return
            with lock:
                over = self._conclude_locked()
        except AlreadyGone:
            self._on_lost(self)
            return
        except SpurprocError:
            self.try_again()
            return
        if over is None:
            self.try_again()
            return
        if self._leader is not None and self.forked_here:
            with suppress(SpurprocError):
                self._leader.wait(0, reap_grace_s=0)
            self._on_reaped()
        self._on_recorded(self, over)

    def rests(self) -> bool:
        """Whether another successor has to wait: each that died with something left to do makes the pause longer.

        It is told once more, after the pause, that the end is recorded.
        """
        if self.successors == 0 or self._rested:
            return False
        self._rested = True
        self._retry_s = min(_RETRY_FIRST_S * 2**self.successors, _RETRY_LAST_S)
        self.try_again()
        return True

    def try_again(self) -> None:
        """Conclude once more, in a while."""
        self._loop.at(f"conclude {self.step.runtime_id}", self._retry_s, self.await_leader)
        self._retry_s = min(2 * self._retry_s, _RETRY_LAST_S)

    def _conclude_locked(self) -> bool | None:
        """Whether nothing is owed now; None where it is not ours to say yet."""
        if not self.step.folder.is_named():
            raise AlreadyGone(2, f"the folder {self.step.folder.path!r} was removed")
        self.step.folder.sync_above()
        launch = self.step.launch()
        records = StepRecords(self.step)
        try:
            if records.history.end is None:
                end = self._end(launch, records)
                if end is None:
                    return None
                records.exit_observed(end)
            return is_over(launch, records.history)
        finally:
            records.close()

    def _end(self, launch: LaunchRecord, records: StepRecords) -> ExitInfo | None:
        if self.forked_here and self._handed_over is None:
            return never_started("its supervisor ended before it had a leader at its gate")
        end: ExitInfo | NotYours | None
        if self._leader is not None and self._leader_channel is not None:
            end = _with_reason(end_of_leader(self._leader, read_progress(self._leader_channel)))
        else:
            descriptor, boot_id = self.step.descriptor(), read_boot_id()
            end = conclusion(launch, descriptor, records.history, boot_id, self._leader, by_host=self.forked_here)
        if isinstance(end, NotYours):
            return None
        return self._trimmed(launch, end)

    def _trimmed(self, launch: LaunchRecord, end: ExitInfo | None) -> ExitInfo | None:
        """With what the end itself does not say."""
        if end is None or end.kind not in (ExitKind.EXITED, ExitKind.SIGNALED):
            return end
        return replace(end, oom_kills=self._oom_kills(), trusted=not launch.job_may_forge)

    def _oom_kills(self) -> int | None:
        descriptor = self.step.descriptor()
        if descriptor is None or descriptor.cgroup is None:
            return None
        try:
            with Cgroup.open(descriptor.cgroup.path, descriptor.cgroup.inode) as cgroup:
                return cgroup.oom_kills()
        except SpurprocError:
            return None

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        self._loop.cancel(f"conclude {self.step.runtime_id}")
        if self._supervisor is not None:
            self._loop.forget(self._supervisor.channel.fileno())
            self._supervisor.channel.close()
            self._supervisor = None
        if self._leader is not None:
            self._loop.forget_end(self._leader)
            self._leader.close()
            self._leader = None
        if self._leader_channel is not None:
            self._leader_channel.close()
        self.step.close()


def _has_ended(pid: int) -> bool:
    """Whether that child of ours is a zombie."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _with_reason(end: ExitInfo | None) -> ExitInfo | None:
    """A leader that found its gate closed says no more than that."""
    if end is None or end.reason or end.stage != SpawnStage.GATE.name:
        return end
    return replace(end, reason="its supervisor ended before it opened the gate")
