"""A hook while it runs: in a group and cgroup of its own, with a time limit, its output kept beside the records."""

from __future__ import annotations

import signal as _signal
from contextlib import suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.exit_info import ExitInfo
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn
from spurproc.core.tree.leader import Leader
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.termination import KILL_ALL, terminate_tree
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.proto.launch_record import Hook
from spurproc.proto.raw_text import raw_bytes

__all__ = ["RunningHook", "clear_hook"]

_END_WITHIN_S = 5.0


def clear_hook(step: str, name: str, root: CgroupRoot | None) -> None:
    """End what a hook has left running, one whose supervisor died: before anybody says that it is over."""
    if root is None:
        return
    with suppress(SpurprocError), Cgroup.open(_cgroup_path(root, step, name)) as cgroup:
        terminate_tree(ProcessTree(cgroup=cgroup), KILL_ALL, timeout_s=_END_WITHIN_S)
        cgroup.remove()


def _cgroup_path(root: CgroupRoot, step: str, name: str) -> str:
    """Without a random part, so that whoever comes after can find what is left of it."""
    return f"{root.hooks}/{step}.{name}"


class RunningHook:
    """A hook that was started. Owns its pidfd and its cgroup."""

    def __init__(self, name: str, pidfd: Pidfd, identity: ProcessIdentity, cgroup: Cgroup | None) -> None:
        """Takes `pidfd` and `cgroup`. See `start`."""
        self.name = name
        self.pidfd = pidfd
        self._identity = identity
        self._cgroup = cgroup

    @classmethod
    def start(cls, name: str, hook: Hook, step: str, env: list[bytes], output_fd: int, root: CgroupRoot | None) -> RunningHook:
        """Start it as a child. Raises SpawnError and the like, and then nothing of it is left."""
        cgroup = None if root is None else _make_cgroup(_cgroup_path(root, step, name))
        try:
            plan = SpawnPlan(
                argv=[raw_bytes(argument) for argument in hook.argv],
                env=env,
                stdout=output_fd,
                stderr=output_fd,
                cwd="/",
                oom_score_adj=0,
                cgroup=cgroup,
            )
            spawned = spawn(plan)
        except BaseException:
            if cgroup is not None:
                with suppress(SpurprocError):
                    cgroup.remove()
                cgroup.close()
            raise
        return cls(name, spawned.pidfd, spawned.identity, cgroup)

    def kill(self) -> None:
        """Ask all of it to end."""
        with suppress(SpurprocError):
            if self._cgroup is not None:
                self._cgroup.kill()
            self.pidfd.send_signal(_signal.SIGKILL)

    def finish(self) -> ExitInfo:
        """Its end, once it is a zombie: it is reaped, and whatever it has left behind is ended."""
        end = self.pidfd.wait(0, reap_grace_s=0)
        tree = ProcessTree(leader=Leader(identity=self._identity, pidfd=self.pidfd), cgroup=self._cgroup)
        with suppress(SpurprocError):
            terminate_tree(tree, KILL_ALL, timeout_s=_END_WITHIN_S)
        return end

    def close(self) -> None:
        """Let go, and remove its cgroup if it is empty. May be called twice."""
        self.pidfd.close()
        if self._cgroup is not None:
            with suppress(SpurprocError):
                self._cgroup.remove(0.0)
            self._cgroup.close()


def _make_cgroup(path: str) -> Cgroup:
    with suppress(AlreadyGone), Cgroup.open(path) as left:  # of an earlier step of that name, long over
        left.remove(0.0)
    return Cgroup.create(path)
