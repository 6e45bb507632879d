"""The leader between its clone and its end: at its gate, exec'd, a zombie."""

from __future__ import annotations

import os
from _socket import socket
from contextlib import suppress
from dataclasses import replace

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import begin
from spurproc.core.spawn.stage import SpawnStage
from spurproc.core.spawn.starting import Progress, read_progress
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.launch_record import Program
from spurproc.proto.raw_text import RawText, raw_bytes
from spurproc.stepd.oom_score import ordinary_oom_score_adj

__all__ = ["LeaderProcess", "end_of_leader", "plan_of"]


def plan_of(program: Program, cgroup: Cgroup | None) -> SpawnPlan:
    """The plan for a recorded program. Nothing in it has to be looked up any more."""
    return SpawnPlan(
        argv=[raw_bytes(argument) for argument in program.argv],
        env=[raw_bytes(entry) for entry in program.env],
        cwd=_path(program.cwd),
        stdin=_path(program.stdin),
        stdout=_path(program.stdout),
        stderr=_path(program.stderr),
        user=program.uid,
        group=program.gid,
        groups=program.groups,
        umask=program.umask,
        limits=program.limits,
        affinity=program.affinity,
        oom_score_adj=ordinary_oom_score_adj() if program.oom_score_adj is None else program.oom_score_adj,
        cgroup=cgroup,
        no_new_privs=program.no_new_privs,
    )


def _path(path: RawText | None) -> bytes | None:
    return None if path is None else raw_bytes(path)


class LeaderProcess:
    """A leader at its gate, or past it. Owns its pidfd, the gate and the channel on which its start is told.

    The channel is only ever peeked at: whoever holds another copy of it sees all that was said.
    """

    def __init__(self, program: Program, cgroup: Cgroup | None) -> None:
        """Clone it. It takes all its steps, and waits before the exec. Raises SpawnError, and then nothing of it is left."""
        gate_read, self._gate_fd = os.pipe2(os.O_CLOEXEC)
        try:
            starting, spawned = begin(plan_of(program, cgroup), gate_fd=gate_read)
        except BaseException:
            self.close_gate()
            raise
        finally:
            os.close(gate_read)
        self.channel: socket = starting.take_channel()
        self.pidfd: Pidfd = spawned.pidfd
        self.identity: ProcessIdentity = spawned.identity

    def progress(self) -> Progress:
        """How far it has come."""
        return read_progress(self.channel)

    def open_gate(self) -> None:
        """Let it exec. One that has died meanwhile does not."""
        with suppress(BrokenPipeError):
            os.write(self._gate_fd, b"\0")
        self.close_gate()

    def close_gate(self) -> None:
        """Without having opened it: it will never exec. May be called twice."""
        if self._gate_fd >= 0:
            os.close(self._gate_fd)
            self._gate_fd = -1

    def kill(self) -> None:
        """SIGKILL, to it alone. A zombie, and one that was reaped, are fine."""
        with suppress(AlreadyGone, SpurprocError):
            self.pidfd.send_signal(9)

    def end(self) -> ExitInfo | None:
        """How it ended, read from its zombie; None while it lives. It is not reaped."""
        return end_of_leader(self.pidfd, self.progress())

    def reap(self) -> None:
        """What its zombie had to say is durable."""
        self.pidfd.wait(0, reap_grace_s=0)

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        self.close_gate()
        self.channel.close()
        self.pidfd.close()


def end_of_leader(pidfd: Pidfd, progress: Progress) -> ExitInfo | None:
    """What is known of an ended leader's end. Decided by what it said itself: without "about to exec" it never ran.

    Between that word and the exec it can still be killed; that, and only that, reads as the end of the program itself.
    """
    seen = pidfd.exit_info()
    if progress.started:
        return seen
    stage = SpawnStage(progress.stage)
    how = "" if progress.error or seen.kind is ExitKind.UNKNOWN else _how_it_ended(seen)
    return replace(ExitInfo.not_started(stage.name, progress.error, reason=how or None), observed_at=seen.observed_at)


def _how_it_ended(seen: ExitInfo) -> str:
    return f"{seen} before exec"
