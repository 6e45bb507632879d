"""Who may do what: root, and the user as whom the agent runs, all; everybody else what is their own. Pure."""

from __future__ import annotations

import errno
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.service.peers import Peer
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted

__all__ = ["Permission"]

_UNLIMITED = 2**64 - 1
_GRACE_LAST_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """`agent_uid`: as whom the agent runs. `ceilings`: its own hard limits, by `resource.RLIMIT_*`."""

    agent_uid: int
    ceilings: Mapping[int, int]

    def is_root(self, uid: int) -> bool:
        """Whether that user may do all."""
        return uid in (0, self.agent_uid)

    def sees(self, uid: int, owner: int) -> bool:
        """Whether that user may know of what is `owner`'s, and end it."""
        return uid == owner or self.is_root(uid)

    def check_sees(self, uid: int, owner: int, job_id: int) -> None:
        """Raises AlreadyGone, as for a job that is not there: who may not see it does not learn whether it is."""
        if not self.sees(uid, owner):
            raise self.not_found(uid, job_id)

    def not_found(self, uid: int, job_id: int) -> AlreadyGone:
        """There is none; to who does not see all, or it is another user's."""
        why = "there is none" if self.is_root(uid) else "there is none, or it is another user's"
        return AlreadyGone(errno.ENOENT, f"cannot find job {job_id}: {why}")

    def check_root(self, uid: int, verb: str) -> None:
        """Raises NotPermitted."""
        if not self.is_root(uid):
            whose = "root" if self.agent_uid == 0 else f"root or user {self.agent_uid}"
            raise _refused(f"cannot {verb}: only {whose} may")

    def check_uid_asked(self, uid: int, asked: int | None) -> None:
        """Whether a user may ask for the jobs of `asked`; None: of all that it sees. Raises NotPermitted."""
        if asked is not None and not self.sees(uid, asked):
            raise _refused(f"cannot list the jobs of user {asked}: you are user {uid}")

    def check_submission(self, peer: Peer, user: str, spec: JobSpec) -> None:
        """Whether the peer, whose name is `user`, may have that run. Raises NotPermitted, which names what it may not."""
        if self.agent_uid not in (0, spec.uid):
            raise _refused(f"cannot submit for user {spec.uid}: the agent runs as user {self.agent_uid}, and can run no other's")
        if self.is_root(peer.uid):
            return
        own_groups = {peer.gid, *peer.groups}
        strange = {spec.gid, *spec.groups} - own_groups
        if spec.uid != peer.uid:
            raise _refused(f"cannot submit for user {spec.uid}: you are user {peer.uid}")
        if strange:
            raise _refused(f"cannot submit as group {min(strange)}: you are not in it")
        if spec.user != user:
            raise _refused(f"cannot submit as {spec.user!r}: your name is {user!r}")
        self._check_limits(spec)
        _check_kill_plan(spec)

    def _check_limits(self, spec: JobSpec) -> None:
        for number, (_, hard) in spec.limits.items():
            if number not in self.ceilings:
                raise InvalidArgument(f"limits: there is no limit {number} here")
            if hard % (_UNLIMITED + 1) > self.ceilings[number] % (_UNLIMITED + 1):
                raise _refused(f"cannot submit with limit {number} at {hard}: the agent's own is {self.ceilings[number]}")


def _check_kill_plan(spec: JobSpec) -> None:
    """A time limit, and root who ends the job, are to get the node back."""
    steps = spec.kill_plan.steps
    if steps[-1][0] != signal.SIGKILL:
        raise InvalidArgument("kill_plan: its last signal has to be SIGKILL, unless root submits")
    if sum(grace_s or 0.0 for _, grace_s in steps[:-1]) > _GRACE_LAST_S:
        raise InvalidArgument(f"kill_plan: it takes more than {_GRACE_LAST_S:g} s to come to SIGKILL, which only root may submit")


def _refused(why: str) -> NotPermitted:
    return NotPermitted(errno.EPERM, why)
