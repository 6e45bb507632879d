"""A program between its clone and its exec: which stage it has reached, and whether it started."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import struct
from _socket import MSG_DONTWAIT, MSG_PEEK, socket
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from spurproc.core.exit_info import ExitKind
from spurproc.core.facilities import vanished
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.exec_failure import exec_reason
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.plan_layout import PlanFields
from spurproc.core.spawn.program import PROGRAM_PATH
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted, SpawnError, Unsupported, WaitTimeout

__all__ = ["Progress", "Starting", "checked_timeout", "failure", "read_progress"]

_RECORD = struct.Struct("=ii")
_CHANNEL_BYTES = 4096
_KILL_WAIT_S = 5.0
"""For the kernel to end what was killed: at once, but on a crowded machine it first has to get a processor."""
_NOT_NULL = frozenset(
    {errno.ENODEV, errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.EPERM}
)
"""At DESCRIPTORS nothing else than the null device is opened by name."""
_POLL_LAST_S = 2_000_000.0
"""poll(2) counts milliseconds in an int; whoever waits longer waits for ever."""
_ON_FACILITIES = frozenset((SpawnStage.CLONE, SpawnStage.DESCRIPTORS, SpawnStage.CGROUP, SpawnStage.RECORDER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The last record on a channel. `error` 0: about to take `stage`. `ended`: the other end is closed, by an exec or an end."""

    stage: SpawnStage
    error: int
    ended: bool

    @property
    def started(self) -> bool:
        """The program was exec'd; it may have ended since."""
        return self.ended and self.error == 0 and self.stage is SpawnStage.EXEC


def read_progress(channel: socket, timeout_s: float | None = 0) -> Progress:
    """What the channel holds when the other end is closed, or `timeout_s` from now; None is for ever.

    Peeks, so that another reader of the same channel sees it too.
    """
    ended = _poll(channel.fileno(), timeout_s)  # before the records are read: then none can come after them
    try:
        data = channel.recv(_CHANNEL_BYTES, MSG_PEEK | MSG_DONTWAIT)
    except BlockingIOError:
        data = b""
    records = list(_RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]))
    stage, error = next((record for record in records if record[1]), records[-1] if records else (SpawnStage.PROGRAM, 0))
    return Progress(stage=SpawnStage(stage), error=error, ended=ended)


def _poll(fd: int, timeout_s: float | None) -> bool:
    """Whether the peer of `fd` closed within `timeout_s`: POLLRDHUP, since peeked data would make POLLIN true all the time."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return bool(poll.poll(None if timeout_s is None or timeout_s > _POLL_LAST_S else timeout_s * 1000))


def checked_timeout(timeout_s: object) -> float | None:
    """`timeout_s` if it is None or a number of seconds from 0 on, else InvalidArgument: poll(2) would take -1 for ever."""
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s >= 0:
        raise InvalidArgument(f"timeout_s: {timeout_s!r} is not a number of seconds from 0 on")
    return timeout_s


def failure(plan: SpawnPlan, fields: PlanFields, stage: SpawnStage, error: int, how: str = "") -> SpawnError:
    """The exception for `error` at `stage`. `how`: what happened instead, where no errno tells."""
    paths = dict(zip((SpawnStage.STDIN, SpawnStage.STDOUT, SpawnStage.STDERR), fields.stdio_path, strict=True))
    path = fields.cwd if stage is SpawnStage.CWD else paths.get(stage)
    interpreter, detail = None, how
    if stage is SpawnStage.EXEC and error and not how:
        detail, interpreter = exec_reason(error, fields.candidates, fields.cwd or b"")
    elif path is not None:
        detail = f"{how or os.strerror(error)}: {os.fsdecode(path)!r}"
    elif stage in _ON_FACILITIES and not how and (lost := vanished(error)):
        detail = f"{os.strerror(error)}; {lost}"
    elif stage is SpawnStage.DESCRIPTORS and error in _NOT_NULL and None in plan.stdio:
        detail = f"'/dev/null' is not the null device, character device 1:3: {os.strerror(error)}"
    elif stage is SpawnStage.PROGRAM and error and not how:
        detail = f"cannot execute {PROGRAM_PATH!r}: {os.strerror(error)}"
    return SpawnError(error, stage.name, plan.argv0, interpreter=interpreter, detail=detail)


class Starting:
    """A program on its way: owns the launcher's end of its channel. `confirm` or `abandon` it; both close the channel.

    `pidfd` is borrowed from whoever began it. `channel` is None where the kernel had already confirmed the exec.
    """

    __slots__ = ("_fields", "_plan", "channel", "pidfd")

    def __init__(self, plan: SpawnPlan, fields: PlanFields, pidfd: Pidfd, channel: socket | None) -> None:
        self._plan = plan
        self._fields = fields
        self.pidfd = pidfd
        self.channel = channel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the channel. May be called twice."""
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.close()

    def take_channel(self) -> socket:
        """The channel, for the caller to own and read: a recorder says more on it than this class knows."""
        channel, self.channel = self.channel, None
        if channel is None:
            raise InvalidArgument("cannot take the channel of a start: it has none, or not any more")
        return channel

    def failure(self, stage: SpawnStage, error: int, how: str = "") -> SpawnError:
        """The exception for `error` at `stage`, told over a channel that was taken."""
        return failure(self._plan, self._fields, stage, error, how)

    def confirm(self, timeout_s: float | None) -> None:
        """Wait until it has started. Raises SpawnError if it did not, or not in time; then nothing of it is left."""
        if self.channel is None:
            return
        progress = read_progress(self.channel, checked_timeout(timeout_s))
        if not progress.ended:
            progress = self._held_still(self.channel)
        if not progress.started:
            raise self._given_up(progress, timeout_s)
        self.close()

    def _held_still(self, channel: socket) -> Progress:
        """The last look after the deadline, at a process that is stopped.

        What has been exec'd by now has started and goes on; what has not will be killed without having run an instruction of
        the job, for a stop acts before the return to user mode. signal(7)
        """
        with contextlib.suppress(AlreadyGone, NotPermitted, Unsupported):
            self.pidfd.send_signal(signal.SIGSTOP)
        progress = read_progress(channel)
        if progress.started:
            with contextlib.suppress(AlreadyGone, NotPermitted, Unsupported):
                self.pidfd.send_signal(signal.SIGCONT)
        return progress

    def _given_up(self, progress: Progress, timeout_s: float | None) -> SpawnError:
        how = f"no answer within {timeout_s} s" if not progress.ended else self._end() if progress.error == 0 else ""
        error = errno.ETIMEDOUT if not progress.ended else progress.error
        lives_on = self.abandon(ending=progress.ended)
        if lives_on:
            how = "; ".join(filter(None, (how, lives_on)))
        return failure(self._plan, self._fields, progress.stage, error, how)

    def abandon(self, *, ending: bool = False) -> str:
        """Kill it, reap it if it is our child, and let go of everything. Waits at most five seconds for the kernel to end it.

        Returns why it lives on, empty if it does not: a launcher that may change users may not signal them (no CAP_KILL), and
        one whose sandbox refuses pidfd_send_signal(2) may signal nobody. `ending`: it ends by itself, signalled or not.
        """
        lives_on = self._kill()
        with contextlib.suppress(WaitTimeout):
            self.pidfd.wait(_KILL_WAIT_S if ending or not lives_on else 0.0, reap_grace_s=0)
            lives_on = ""
        self.pidfd.close()
        self.close()
        return lives_on

    def undo(self, error: BaseException) -> None:
        """`abandon` it on account of `error`, which gets a note if it lives on."""
        lives_on = self.abandon()
        if lives_on:
            error.add_note(f"{self._plan.argv0!r}, process {self.pidfd.pid}: {lives_on}")

    def _kill(self) -> str:
        """Why it could not be killed; empty if it was."""
        try:
            self.pidfd.send_signal(signal.SIGKILL)
        except AlreadyGone:
            pass
        except NotPermitted:
            return "it is another user's by now, and this one may not kill it"
        except Unsupported:
            return "it lives on, for pidfd_send_signal(2) is refused here and nothing is sent to a bare number"
        return ""

    def _end(self) -> str:
        try:
            info = self.pidfd.wait(_KILL_WAIT_S, reap_grace_s=0)
        except WaitTimeout:
            return "it is killed and has not ended yet"
        if info.kind is ExitKind.SIGNALED:
            return f"it was killed by signal {info.signal} before exec"
        return "it ended before exec"
