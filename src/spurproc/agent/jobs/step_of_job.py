"""A job that was given resources, as the step that its supervisor runs."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from spurproc.agent.jobs.environment import Surroundings, job_environment
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.output_pattern import PatternValues, expand_pattern
from spurproc.agent.jobs.script import interpreter_of
from spurproc.agent.resources.allocation import Allocation
from spurproc.client.spec import StepSpec
from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import InvalidArgument, NotPermitted
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.raw_text import RawText, raw_bytes
from spurproc.proto.runtime_id import BATCH_STEP

__all__ = ["JobPlace", "start_failure", "step_of_job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """What was made for the attempt on this node."""

    node: str
    script_path: str | None = None
    """Of the copy in the spool; None where the job is an argv."""
    scratch_path: str | None = None
    """None where it brings its own work folder."""
    limits_required: bool = False
    """Whether a limit that cannot be enforced here is an error; else it is left out."""


def step_of_job(spec: JobSpec, attempt: AttemptId, allocation: Allocation, place: JobPlace) -> StepSpec:
    """Its batch step: as its user, on exactly its CPUs, held to its memory. Raises InvalidArgument, Unsupported, NotPermitted."""
    if spec.reservation:
        raise InvalidArgument(f"cannot run attempt {attempt}: it is a reservation")
    work_dir = _work_dir(spec, attempt, place)
    return StepSpec(
        runtime_id=attempt.step(BATCH_STEP),
        plan=_plan(spec, attempt, allocation, place, work_dir),
        cgroup_limits=CgroupLimits(
            memory_max_bytes=allocation.memory_bytes or None, pids_max=spec.pids_max, cpus=float(len(allocation.cpus))
        ),
        limits_required=place.limits_required,
        kill_plan=spec.kill_plan,
        time_limit_s=spec.time_limit_s,
    )


def start_failure(spec: JobSpec, step: StepSpec, end: ExitInfo) -> str | None:
    """Why its program never ran, with what it is about: the work folder, a stream, an interpreter. None where it ran."""
    if end.kind is not ExitKind.NOT_STARTED or step.plan is None:
        return None
    plan = step.plan
    about = {
        SpawnStage.CWD.name: ("enter the work folder", plan.cwd),
        SpawnStage.STDIN.name: ("open stdin,", plan.stdin),
        SpawnStage.STDOUT.name: ("open stdout,", plan.stdout),
        SpawnStage.STDERR.name: ("open stderr,", plan.stderr),
        SpawnStage.EXEC.name: ("run", plan.argv[0]),
    }
    verb, noun = about.get(end.stage or "", ("start", plan.argv[0]))
    reason = os.strerror(end.errno) if end.errno else end.reason or "it ended before it got so far"
    name = repr(os.fsdecode(noun)) if isinstance(noun, str | bytes) else ""
    return f"cannot {verb} {name}{_interpreter(spec, end)}: {reason}"


def _interpreter(spec: JobSpec, end: ExitInfo) -> str:
    """Our copy of a script is there and may be run: what is missing or may not be is what its first line names."""
    interpreter = end.interpreter
    if interpreter is None and spec.script is not None and end.stage == SpawnStage.EXEC.name:
        interpreter = interpreter_of(spec.script)
    return "" if interpreter is None else f": its interpreter {interpreter!r}"


def _work_dir(spec: JobSpec, attempt: AttemptId, place: JobPlace) -> bytes:
    if spec.work_dir is not None and not spec.wants_scratch:
        return raw_bytes(spec.work_dir)
    if place.scratch_path is None:
        raise InvalidArgument(f"scratch_path: attempt {attempt} brings no work folder, and has no scratch folder")
    return os.fsencode(place.scratch_path)


def _plan(spec: JobSpec, attempt: AttemptId, allocation: Allocation, place: JobPlace, work_dir: bytes) -> SpawnPlan:
    runtime_id = attempt.step(BATCH_STEP)
    values = PatternValues(runtime_id=runtime_id, job_name=spec.name, user=spec.user, node=place.node)
    surroundings = Surroundings(runtime_id=runtime_id, node=place.node, work_dir=work_dir, allocation=allocation)
    switches = _switches_user(spec)
    return SpawnPlan(
        argv=_argv(spec, attempt, place),
        env=job_environment(spec, surroundings),
        cwd=work_dir,
        stdin=_stream(spec.stdin, values, work_dir),
        stdout=_stream(spec.stdout, values, work_dir),
        stderr=_stream(spec.stdout if spec.stderr is None else spec.stderr, values, work_dir),
        user=spec.uid if switches else None,
        group=spec.gid if switches else None,
        groups=spec.groups if switches else None,
        umask=spec.umask,
        limits=spec.limits,
        affinity=allocation.cpus,  # its oom_score_adj: its supervisor's, and never that one's protection
    )


def _argv(spec: JobSpec, attempt: AttemptId, place: JobPlace) -> list[bytes]:
    arguments = [raw_bytes(text) for text in spec.argv]
    if spec.script is None:
        return arguments
    if place.script_path is None:
        raise InvalidArgument(f"script_path: attempt {attempt} has a script, and no copy of it")
    return [os.fsencode(place.script_path), *arguments]


def _switches_user(spec: JobSpec) -> bool:
    """Only root may set groups: an agent of a user runs what is that user's, with the groups that it has itself."""
    if os.geteuid() == 0:
        return True
    if spec.uid != os.geteuid():
        raise NotPermitted(errno.EPERM, f"cannot run a job of user {spec.uid}: the agent is not root, but user {os.geteuid()}")
    return False


def _stream(pattern: RawText | None, values: PatternValues, work_dir: bytes) -> bytes | None:
    """Absolute: the same file, whoever looks for it from wherever."""
    return None if pattern is None else os.path.join(work_dir, expand_pattern(pattern, values))
