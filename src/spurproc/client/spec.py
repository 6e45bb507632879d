"""What a caller wants to be run, and the record that it becomes: names looked up, and what the caller has put down in numbers."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field

from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.core.spawn.credentials import credentials_of
from spurproc.core.spawn.environment import env_entries
from spurproc.core.spawn.plan import SpawnPlan, Stdio
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from spurproc.core.vantage import read_boot_id
from spurproc.errors import InvalidArgument, RecordInvalid, Unsupported
from spurproc.proto.codec import decode, encode
from spurproc.proto.launch_record import LAUNCH_LIMIT_BYTES, Hook, LaunchRecord, Program
from spurproc.proto.raw_text import RawText, raw_text
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["StepSpec"]

_RLIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step to launch. Raises InvalidArgument, which names the field."""

    runtime_id: RuntimeId
    plan: SpawnPlan | None = None
    """The leader; None for the extern step, which has none. Its standard streams are paths or None, opened as the job's user, for
    no descriptor of the caller outlives that. Limits, umask, affinity, cwd that it does not give are the caller's."""
    containment: Containment | None = None
    """None: the strongest that this host gives. CGROUP insists on one."""
    cgroup_limits: CgroupLimits = field(default_factory=CgroupLimits)
    limits_required: bool = True
    """Whether a limit that cannot be enforced here is an error; else it is left out."""
    kill_plan: KillPlan = field(default_factory=KillPlan.default)
    """For `terminate`, the time limit, and whatever outlives the leader."""
    time_limit_s: float | None = None
    """From the leader's exec on, by the monotonic clock."""
    prolog: Hook | None = None
    """Runs before the leader; if it does not exit with 0 the leader never runs."""
    epilog: Hook | None = None
    """Runs once nothing of the tree is left, however the step ended."""
    start_deadline_s: float = 60.0
    """The supervisor waits that long for `start`."""
    pty: bool = False
    """Not in this release: raises Unsupported."""
    tasks: int = 1
    """Not in this release above 1: raises Unsupported. Launch a step for each."""

    def __post_init__(self) -> None:
        if not isinstance(self.runtime_id, RuntimeId):
            raise InvalidArgument(f"runtime_id: {self.runtime_id!r} is no RuntimeId")
        if (self.plan is None) is not self.runtime_id.is_extern:
            raise InvalidArgument(f"plan: step {self.runtime_id} {'has no leader' if self.plan else 'needs one'}")
        if self.pty:
            raise Unsupported("pty: a supervised step has no terminal; its streams are files")
        if self.tasks != 1:
            raise Unsupported(f"tasks: {self.tasks!r}: a step has one leader; launch a step for each task")
        if self.plan is not None:
            _check(self.plan)

    def record(self) -> LaunchRecord:
        """What is written down. Looks up names, which can block (nsswitch.conf(5)). Raises InvalidArgument, with the field."""
        return _read_back(self._record())

    def _record(self) -> LaunchRecord:
        return LaunchRecord(
            runtime_id=self.runtime_id,
            boot_id=read_boot_id(),
            capability=os.urandom(16).hex(),
            program=None if self.plan is None else _program(self.plan),
            containment=self.containment,
            cgroup_limits=self.cgroup_limits,
            limits_required=self.limits_required,
            kill_plan=self.kill_plan,
            time_limit_s=self.time_limit_s,
            prolog=self.prolog,
            epilog=self.epilog,
            start_deadline_s=self.start_deadline_s,
        )


def _read_back(record: LaunchRecord) -> LaunchRecord:
    """As its supervisor will read it, which is the last one to be told that something is wrong with it."""
    try:
        content = encode(record)
        decode(content, LaunchRecord, "spec")
    except RecordInvalid as error:
        raise InvalidArgument(f"cannot launch step {record.runtime_id}: {error.reason}") from None
    except TypeError as error:
        raise InvalidArgument(f"cannot launch step {record.runtime_id}: {error}") from None
    if len(content) > LAUNCH_LIMIT_BYTES:
        raise InvalidArgument(f"cannot launch step {record.runtime_id}: its record has more than {LAUNCH_LIMIT_BYTES} bytes")
    return record


def _check(plan: object) -> None:
    if not isinstance(plan, SpawnPlan):
        raise InvalidArgument(f"plan: {plan!r} is no SpawnPlan")
    if plan.cgroup is not None:
        raise InvalidArgument("plan.cgroup: a supervised step gets one of its own")
    if plan.pass_fds:
        raise Unsupported("plan.pass_fds: no descriptor of the caller reaches a step that outlives it")
    for name, value in zip(("stdin", "stdout", "stderr"), plan.stdio, strict=True):
        if isinstance(value, int):
            raise Unsupported(f"plan.{name}: no descriptor of the caller reaches a step that outlives it; give a path")


def _program(plan: SpawnPlan) -> Program:
    who = credentials_of(plan.user, plan.group, plan.groups)
    return Program(
        argv=tuple(raw_text(argument) for argument in plan.argv),
        env=tuple(raw_text(entry) for entry in env_entries(plan.env)),
        cwd=raw_text(os.path.join(os.getcwdb(), os.fsencode(plan.cwd or b""))),
        stdin=_path(plan.stdin),
        stdout=_path(plan.stdout),
        stderr=_path(plan.stderr),
        uid=who.uid,
        gid=who.gid,
        groups=who.groups,
        umask=_umask() if plan.umask is None else plan.umask,
        limits=_limits(plan.limits),
        affinity=tuple(sorted(os.sched_getaffinity(0) if plan.affinity is None else plan.affinity)),
        oom_score_adj=plan.oom_score_adj,
        no_new_privs=plan.no_new_privs,
    )


def _path(source: Stdio) -> RawText | None:
    return None if source is None or isinstance(source, int) else raw_text(source)


def _umask() -> int:
    """Without changing it, which a thread that makes a file just now would feel. proc_pid_status(5)"""
    with open("/proc/self/status", "rb") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith(b"Umask:"))


def _limits(given: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The caller's, and over them those of the plan: a host may have been started by somebody with others."""
    return {number: resource.getrlimit(number) for number in _RLIMITS} | dict(given)
