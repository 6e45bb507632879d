"""A leader from its clone to its end, as its supervisor sees it: what it says and what becomes of it turn into events."""

from __future__ import annotations

import errno
import select
from _socket import MSG_NOSIGNAL, SCM_RIGHTS, SOL_SOCKET, socket
from array import array
from collections.abc import Callable
from contextlib import suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.exit_info import ExitInfo
from spurproc.core.observation import Liveness
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import SystemCallError, WaitTimeout
from spurproc.proto.launch_record import Program
from spurproc.stepd.leader import LeaderProcess
from spurproc.stepd.loop import Loop
from spurproc.stepd.table import StepEvent

__all__ = ["LeaderStart"]

_WATCHED = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
"""By edges: the channel is only peeked at, so what was said stays readable."""


class LeaderStart:
    """Owns the leader, once there is one."""

    def __init__(self, loop: Loop, post: Callable[[StepEvent], None]) -> None:
        self._loop = loop
        self._post = post
        self.process: LeaderProcess | None = None
        self._executed = False
        self.reapable = False
        """Whether its end is durable."""

    @property
    def there(self) -> LeaderProcess:
        """The leader. Only for where the table has one."""
        assert self.process is not None  # noqa: S101 - as said
        return self.process

    def spawn(self, program: Program, cgroup: Cgroup | None) -> LeaderProcess:
        """Up to its gate. Raises SpawnError."""
        self.process = LeaderProcess(program, cgroup)
        self._loop.watch(self.process.channel.fileno(), _WATCHED, self._spoke)
        self._loop.watch(self.process.pidfd.fileno(), select.EPOLLIN | select.EPOLLET, self._ended)
        return self.process

    def _spoke(self, _: int) -> None:
        progress = self.there.progress()
        if progress.started:
            if not self._executed:  # told once: it is recorded
                self._executed = True
                self._loop.forget(self.there.channel.fileno())
                self._post(StepEvent.EXECUTED)
        elif progress.stage is SpawnStage.GATE and not progress.ended and not progress.error:
            self._post(StepEvent.AT_GATE)

    def _ended(self, _: int) -> None:
        self._spoke(0)  # what it said comes before its end
        self._loop.forget(self.there.pidfd.fileno())
        self._post(StepEvent.LEADER_ENDED)

    def blocked_at(self) -> str | None:
        """The stage at which its start waits; None before and after it."""
        if self.process is None:
            return None
        progress = self.process.progress()
        return None if progress.ended else progress.stage.name

    def hand_over(self, host_channel: socket) -> None:
        """To the host, which is to be the witness of its end. A host that is gone is none; one that is there has to take it."""
        rights = array("i", [self.there.pidfd.fileno(), self.there.channel.fileno()])
        name = self.there.identity.to_text().encode("ascii")
        try:
            host_channel.sendmsg([name], [(SOL_SOCKET, SCM_RIGHTS, rights)], MSG_NOSIGNAL)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                reason = f"cannot hand the leader over to the host: {error.strerror}"
                raise SystemCallError(error.errno or errno.EIO, reason) from None

    def open_gate(self) -> None:
        """It may exec."""
        self.there.open_gate()

    def abandon(self) -> None:
        """It never will, and is killed."""
        if self.process is not None:
            self.process.close_gate()
            self.process.kill()

    def end(self) -> ExitInfo | None:
        """How it ended; None where there never was one."""
        return None if self.process is None else self.process.end()

    def reap(self) -> None:
        """Now, or when it has ended: its end is durable."""
        self.reapable = True
        if self.process is not None and self.process.pidfd.liveness() is Liveness.GONE:
            with suppress(WaitTimeout):
                self.process.reap()
