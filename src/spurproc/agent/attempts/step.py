"""The step of an attempt: made ready, launched, watched, ended, removed. What blocks says so, and runs on a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.jobs.scratch import make_scratch, remove_scratch
from spurproc.agent.jobs.spool import SCRIPT_NAME, remove_spool, write_script
from spurproc.agent.jobs.step_of_job import JobPlace, start_failure, step_of_job
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store.attempts import spec_of
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.core.durable.journal import JOURNAL_NAME, read_journal
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.spawn.stage import SpawnStage
from spurproc.errors import AlreadyGone, InvalidArgument, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode
from spurproc.proto.descriptor import DESCRIPTOR_LIMIT_BYTES, DESCRIPTOR_NAME
from spurproc.proto.journal_record import JournalRecord
from spurproc.proto.journal_record import Launched as LaunchedRecord
from spurproc.proto.runtime_id import BATCH_STEP
from spurproc.proto.step_folder import RUNTIME_NAME
from spurproc.proto.takeover import RESTARTED

__all__ = [
    "Launched",
    "Traces",
    "cut_short",
    "find_step",
    "launch_step",
    "prepare",
    "remove_folders",
    "remove_step",
    "spec_for",
    "step_spec",
    "told_end",
    "trace_of",
    "traces_of",
]

_EXEC_WITHIN_S = 0.25
"""A start that blocks, at a FIFO say, goes on by itself; a thread, of which others want one, waits for it that long."""


def prepare(around: Surroundings, attempt: AttemptId, spec: JobSpec) -> None:
    """Its script and its scratch folder. Blocks. Once more for the same attempt is fine."""
    state = around.state_dir
    around.ownership.require()
    if spec.script is not None:
        write_script(state.spool, attempt, spec.script, uid=spec.uid, gid=spec.gid, sync=False)  # the store has it
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A step, and what its records said right after the launch."""

    step: Step
    trace: Trace
    started_at: float | None


def launch_step(around: Surroundings, attempt: Attempt, spec: JobSpec, note: Callable[[bytes], None]) -> Launched:
    """Launch it, once: where its folder stands, it was launched. Blocks. Raises what kept it from being launched.

    `note` is told the descriptor of a step that stands ready, and makes that durable before anything of it can run.
    """
    step = step_spec(around, attempt.id, _given(attempt), spec)
    around.ownership.require()
    try:
        launched = launch(
            step,
            around.state_dir.steps.path,
            timeout_s=_EXEC_WITHIN_S,
            folder_inode=around.steps_inode,
            before_start=lambda: note(_descriptor_of(around, attempt.id)),
        )
    except SpurprocError:
        found = find_step(around, attempt.id)
        if found is None:
            raise
        launched = found
    traces = traces_of(around, attempt.id)
    return Launched(step=launched, trace=traces.trace, started_at=traces.started_at)


def _given(attempt: Attempt) -> Allocation:
    if attempt.allocation is None:
        raise InvalidArgument(f"cannot say what attempt {attempt.id} was given")
    return attempt.allocation


def find_step(around: Surroundings, attempt: AttemptId) -> Step | None:
    """None where it has no step. Raises RecordInvalid and the like for one that cannot be read."""
    with suppress(AlreadyGone):
        return Step.open(around.state_dir.steps.path, attempt.step(BATCH_STEP))
    return None


class Traces(NamedTuple):
    """Who runs a step, and when its leader was exec'd, by the wall clock; None where it never was, or that cannot be read."""

    trace: Trace
    started_at: float | None


def traces_of(around: Surroundings, attempt: AttemptId) -> Traces:
    """By its records, read in the very folder that we own; nothing where they cannot be read. Blocks."""
    trace, started_at = Trace(), None
    with (
        suppress(SpurprocError),
        around.state_dir.steps.open_folder(RUNTIME_NAME) as runtime,
        runtime.open_folder(str(attempt.step(BATCH_STEP))) as folder,
    ):
        with suppress(SpurprocError):
            found = Trace(folder.read_file(DESCRIPTOR_NAME, DESCRIPTOR_LIMIT_BYTES))
            trace = found if found.is_of(attempt) else trace
        started_at = _launched_at(read_journal(folder))
    return Traces(trace, started_at)


def _descriptor_of(around: Surroundings, attempt: AttemptId) -> bytes:
    """Of a step that stands ready. Raises what keeps it from being read: what is started without it could not be found again."""
    state = around.state_dir
    with (
        state.steps.open_folder(RUNTIME_NAME) as runtime,
        runtime.open_folder(str(attempt.step(BATCH_STEP))) as folder,
    ):
        return folder.read_file(DESCRIPTOR_NAME, DESCRIPTOR_LIMIT_BYTES)


def trace_of(around: Surroundings, attempt: AttemptId, noted: bytes | None) -> Trace:
    """Who runs a step whose records cannot all be read: by its descriptor as it stands, else as it was noted. Blocks."""
    found = traces_of(around, attempt).trace
    return Trace(noted or b"") if found.is_empty else found


def _launched_at(lines: Iterable[bytes]) -> float | None:
    for line in lines:
        record: JournalRecord = decode(line, JournalRecord, JOURNAL_NAME)  # type: ignore[arg-type]  # a union
        if isinstance(record, LaunchedRecord):
            return record.at
    return None


async def spec_for(around: Surroundings, attempt: Attempt) -> JobSpec:
    """What it runs, from memory or the store."""
    if attempt.spec is not None:
        return attempt.spec
    return await around.database.read(lambda connection: spec_of(connection, attempt.id))


def told_end(around: Surroundings, attempt: Attempt, spec: JobSpec, end: ExitInfo) -> ExitInfo:
    """The same end; of a program that never ran with the words that say what could not be opened, entered or run."""
    if end.kind is not ExitKind.NOT_STARTED:
        return end
    with suppress(SpurprocError):
        return replace(end, reason=start_failure(spec, step_spec(around, attempt.id, _given(attempt), spec), end) or end.reason)
    return end


def cut_short(end: ExitInfo) -> str | None:
    """Why it is the node's fault: who launched it was killed on the way, or the machine was restarted. None of any other end."""
    if end.kind is ExitKind.UNKNOWN and end.reason == RESTARTED:
        return end.reason
    if end.kind is not ExitKind.NOT_STARTED or end.stage != SpawnStage.GATE.name:
        return None
    return f"its launch was cut short: {end.reason or 'nobody has told it to start'}"


def remove_step(step: Step) -> None:
    """Acknowledge it and remove its folder. Blocks. One that is gone is fine. Raises Busy while its supervisor is there."""
    with suppress(AlreadyGone):
        step.remove()


def remove_folders(around: Surroundings, attempt: AttemptId) -> None:
    """Its script and its scratch folder. Blocks. Those that are not there are fine."""
    remove_spool(around.state_dir.spool, attempt)
    remove_scratch(around.state_dir.scratch, attempt)
