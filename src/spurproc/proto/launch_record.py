"""`launch.json`: what to run, in which boot. Written once by the launcher, before the step is published."""

from __future__ import annotations

import os
import re

import msgspec

from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from spurproc.core.vantage import boot_id_valid
from spurproc.errors import InvalidArgument
from spurproc.proto.codec import Record
from spurproc.proto.raw_text import RawText
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["LAUNCH_LIMIT_BYTES", "LAUNCH_NAME", "Hook", "LaunchRecord", "Program"]

LAUNCH_NAME = "launch.json"
LAUNCH_LIMIT_BYTES = 1 << 23
"""An argv and environment have 6 MiB at most (execve(2)); base64 makes a third more of them."""
_CAPABILITY = re.compile(r"[0-9a-f]{32}", re.ASCII)


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs before the leader, or after the tree is empty, as the supervisor's own user, in a cgroup of its own.

    `timeout_s`: it is killed then, and has failed. Its environment is the step's, and SPURPROC_STEP and SPURPROC_EXIT beside it.
    """

    argv: tuple[RawText, ...]
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise InvalidArgument("argv: the program of a hook is empty")
        if not self.timeout_s > 0:
            raise InvalidArgument(f"timeout_s: {self.timeout_s!r} is not a number of seconds above 0")


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of a step, with every name looked up: bytes and numbers, as a SpawnPlan takes them."""

    argv: tuple[RawText, ...]
    env: tuple[RawText, ...]
    """`NAME=value` entries, all of them."""
    cwd: RawText | None = None
    stdin: RawText | None = None
    stdout: RawText | None = None
    stderr: RawText | None = None
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None
    umask: int | None = None
    limits: dict[int, tuple[int, int]] = {}
    affinity: tuple[int, ...] | None = None
    oom_score_adj: int | None = None
    no_new_privs: bool = False


class LaunchRecord(Record, frozen=True, kw_only=True):
    """What to run, in which boot, and how to treat it.

    `program` is None for an extern step. `capability`: who knows it could read the folder. `start_deadline_s`: the supervisor
    waits that long for `start`.
    """

    runtime_id: RuntimeId
    boot_id: str
    capability: str
    program: Program | None
    containment: Containment | None = None
    """None: the strongest that this host gives."""
    cgroup_limits: CgroupLimits = CgroupLimits()
    limits_required: bool = True
    kill_plan: KillPlan = KillPlan.default()
    time_limit_s: float | None = None
    prolog: Hook | None = None
    epilog: Hook | None = None
    start_deadline_s: float = 60.0
    linger_s: float = 1.0

    def __post_init__(self) -> None:
        if not boot_id_valid(self.boot_id):
            raise InvalidArgument(f"boot_id: {self.boot_id!r:.100}")
        if not _CAPABILITY.fullmatch(self.capability):
            raise InvalidArgument("capability: not 32 hexadecimal digits")
        if (self.program is None) is not self.runtime_id.is_extern:
            raise InvalidArgument("program: every step has one, but the extern step has none")
        for name in ("start_deadline_s", "linger_s", "time_limit_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidArgument(f"{name}: {value!r} is not a number of seconds from 0 on")

    @property
    def job_may_forge(self) -> bool:
        """Whether the job could have written the step's records itself: it runs as their owner, or as root."""
        uid = None if self.program is None else self.program.uid
        return (os.geteuid() if uid is None else uid) in (0, os.geteuid())
