"""A hook while it runs: in a session and a cgroup of its own, its output kept beside the records."""

from __future__ import annotations

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.exit_info import ExitInfo
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn
from spurproc.core.tree.leader import Leader
from spurproc.errors import SpurprocError
from spurproc.proto.launch_record import Hook
from spurproc.proto.raw_text import raw_bytes
from spurproc.stepd.oom_score import ordinary_oom_score_adj

__all__ = ["RunningHook", "open_left"]


def open_left(record: CgroupRecord | None) -> Cgroup | None:
    """The cgroup of a hook whose supervisor died, which the caller owns; None where there is nothing left of it."""
    if record is None:
        return None
    try:
        return Cgroup.open(record.path, record.inode)
    except SpurprocError:
        return None


class RunningHook:
    """A hook that was started. Owns its pidfd."""

    def __init__(self, pidfd: Pidfd, identity: ProcessIdentity) -> None:
        """Takes `pidfd`. See `start`."""
        self.pidfd = pidfd
        self.leader = Leader(identity=identity, pidfd=pidfd)
        self.reaped = False

    @classmethod
    def start(cls, hook: Hook, env: list[bytes], output_fd: int, cgroup: Cgroup | None) -> RunningHook:
        """Start it as a child, in `cgroup` if there is one. Raises SpawnError and the like, and then nothing of it is left."""
        plan = SpawnPlan(
            argv=[raw_bytes(argument) for argument in hook.argv],
            env=env,
            stdout=output_fd,
            stderr=output_fd,
            cwd="/",
            oom_score_adj=ordinary_oom_score_adj(),
            cgroup=cgroup,
        )
        spawned = spawn(plan)
        return cls(spawned.pidfd, spawned.identity)

    def reap(self) -> ExitInfo:
        """Its end, once it is a zombie. Whatever it has left behind may live on."""
        end = self.pidfd.wait(0, reap_grace_s=0)
        self.reaped = True
        return end

    def close(self) -> None:
        """Let go. May be called twice."""
        self.pidfd.close()
