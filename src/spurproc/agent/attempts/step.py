"""The step of an attempt: made ready, launched, watched, ended, removed. What blocks says so, and runs on a thread."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace

import msgspec

from spurproc.agent.attempts.attempt import Attempt, Trace
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.scratch import make_scratch, remove_scratch
from spurproc.agent.jobs.spool import SCRIPT_NAME, remove_spool, write_script
from spurproc.agent.jobs.step_of_job import JobPlace, start_failure, step_of_job
from spurproc.agent.resources.allocation import Allocation
from spurproc.client.collection import gc
from spurproc.client.journal_event import EventKind
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.errors import AlreadyGone, Busy, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP
from spurproc.proto.step_folder import StateFolder

__all__ = [
    "find_step",
    "launch_step",
    "prepare",
    "remove_folders",
    "remove_step",
    "started_at",
    "step_spec",
    "told_end",
    "trace_of",
]

_EXEC_WITHIN_S = 5.0
"""A start that blocks, at a FIFO say, goes on by itself; a thread waits for it that long."""


def prepare(around: Surroundings, attempt: AttemptId, spec: JobSpec) -> None:
    """Its script and its scratch folder. Blocks. Once more for the same attempt is fine."""
    state = around.state_dir
    around.ownership.require()
    if spec.script is not None:
        write_script(state.spool, attempt, spec.script, uid=spec.uid, gid=spec.gid)
    if spec.wants_scratch:
        make_scratch(state.scratch, attempt, uid=spec.uid, gid=spec.gid)


def step_spec(around: Surroundings, attempt: AttemptId, allocation: Allocation, spec: JobSpec) -> StepSpec:
    """Its step, as it is launched here. Raises InvalidArgument and the like, where it cannot be."""
    state = around.state_dir
    place = JobPlace(
        node=around.configuration.node_name,
        script_path=None if spec.script is None else f"{state.spool.path}/{attempt}/{SCRIPT_NAME}",
        scratch_path=f"{state.scratch.path}/{attempt}" if spec.wants_scratch else None,
    )
    time_limit_s = around.configuration.time_limit_s if spec.time_limit_s is None else spec.time_limit_s
    spec = msgspec.structs.replace(spec, time_limit_s=time_limit_s, limits={**around.job_limits, **spec.limits})
    return step_of_job(spec, attempt, allocation, place)


def launch_step(around: Surroundings, attempt: Attempt, spec: JobSpec) -> Step:
    """Launch it, once: where its folder stands, it was launched. Blocks. Raises what kept it from being launched."""
    step = step_spec(around, attempt.id, attempt.allocation, spec)
    around.ownership.require()
    try:
        return launch(step, around.state_dir.steps.path, timeout_s=_EXEC_WITHIN_S, create=False, folder_inode=around.steps_inode)
    except SpurprocError:
        found = find_step(around, attempt.id)
        if found is None:
            raise
        return found


def find_step(around: Surroundings, attempt: AttemptId) -> Step | None:
    """None where it has no step. Raises RecordInvalid and the like for one that cannot be read."""
    with suppress(AlreadyGone):
        return Step.open(around.state_dir.steps.path, attempt.step(BATCH_STEP))
    return None


def trace_of(around: Surroundings, attempt: AttemptId) -> Trace:
    """Who runs it, by its records; nothing where they cannot be read."""
    try:
        with StateFolder.open(around.state_dir.steps.path) as state, state.open_step(attempt.step(BATCH_STEP)) as step:
            descriptor = step.descriptor()
    except SpurprocError:
        return Trace()
    if descriptor is None:
        return Trace()
    return Trace(cgroup=descriptor.cgroup, supervisor=descriptor.supervisor, leader=descriptor.leader)


def started_at(step: Step) -> float | None:
    """When its leader was exec'd, by the wall clock; None where it never was, or that cannot be read."""
    with suppress(SpurprocError):
        for event in step.events():
            if event.kind is EventKind.LAUNCHED:
                return event.at
    return None


def told_end(around: Surroundings, attempt: Attempt, spec: JobSpec, end: ExitInfo) -> ExitInfo:
    """The same end; of a program that never ran with the words that say what could not be opened, entered or run."""
    if end.kind is not ExitKind.NOT_STARTED:
        return end
    with suppress(SpurprocError):
        return replace(
            end, reason=start_failure(spec, step_spec(around, attempt.id, attempt.allocation, spec), end) or end.reason
        )
    return end


def remove_step(around: Surroundings, step: Step) -> None:
    """Acknowledge it and remove its folder. Blocks. One that is gone is fine. Raises Busy while its supervisor is there."""
    try:
        step.acknowledge()
    except AlreadyGone:
        return
    report = gc(step.state_dir, only=(step.runtime_id,))
    if report.kept:
        raise Busy(errno.EBUSY, f"cannot remove step {step.runtime_id}: {report.kept[0].reason}")


def remove_folders(around: Surroundings, attempt: AttemptId) -> None:
    """Its script and its scratch folder. Blocks. Those that are not there are fine."""
    remove_spool(around.state_dir.spool, attempt)
    remove_scratch(around.state_dir.scratch, attempt)
