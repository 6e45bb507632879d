"""An attempt of which the store knows nothing, or nothing that can be read: what its step folder says that it is, and holds."""

from __future__ import annotations

import os
from contextlib import suppress

from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.errors import SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.launch_record import LaunchRecord, Program
from spurproc.proto.raw_text import RawText, raw_bytes, raw_text
from spurproc.proto.runtime_id import BATCH_STEP
from spurproc.proto.step_folder import StateFolder

__all__ = ["allocation_of", "launch_of", "recovered_spec", "spec_from"]

_DIGITS = 40
"""More than any number that we have written."""


def launch_of(around: Surroundings, attempt: AttemptId) -> LaunchRecord:
    """What its step was launched as. Blocks. Raises RecordInvalid, AlreadyGone and the like."""
    with StateFolder.open(around.state_dir.steps.path) as state, state.open_step(attempt.step(BATCH_STEP)) as folder:
        return folder.launch()


def recovered_spec(around: Surroundings, attempt: AttemptId) -> JobSpec | None:
    """As `spec_from`, of the launch record that stands now; None where that cannot be read. Blocks."""
    with suppress(SpurprocError):
        return spec_from(attempt, launch_of(around, attempt))
    return None


def allocation_of(launch: LaunchRecord, inventory: Inventory) -> Allocation | None:
    """What it was given, as it was told to the job. Raises InvalidArgument where that can be no allocation.

    None of a step that no agent has launched: it was given no CPUs.
    """
    if launch.program is None or not launch.program.affinity:
        return None
    told = _environment(launch.program)
    memory_bytes = _number(told.get(b"SPURD_MEMORY_BYTES")) or launch.cgroup_limits.memory_max_bytes or 0
    return Allocation(
        cpus=tuple(sorted(launch.program.affinity)),
        memory_bytes=memory_bytes,
        generic=_generic(told.get(b"SPURD_GENERIC", b"")),
        gpus=_gpus(told.get(b"SPURD_GPUS", b""), inventory),
    )


def _environment(program: Program) -> dict[bytes, bytes]:
    return {name: value for name, _, value in (raw_bytes(entry).partition(b"=") for entry in program.env)}


def _number(text: bytes | None) -> int:
    return int(text[:_DIGITS]) if text is not None and text.isdigit() else 0


def _generic(text: bytes) -> dict[str, int]:
    pairs = (entry.partition("=") for entry in text.decode("ascii", "replace").split(",") if entry)
    return {name: _number(count.encode()) for name, _, count in pairs}


def _gpus(text: bytes, inventory: Inventory) -> tuple[Gpu, ...]:
    names = set(text.decode("ascii", "replace").split(",")) - {""}
    return tuple(sorted((gpu for gpu in inventory.gpus if names & set(gpu.names)), key=str))


def spec_from(attempt: AttemptId, launch: LaunchRecord) -> JobSpec:
    """Enough of a spec for a row: whose it is, what it runs, and where its output is. It is never launched by it."""
    program = launch.program
    uid = os.geteuid() if program is None or program.uid is None else program.uid
    gid = os.getegid() if program is None or program.gid is None else program.gid
    argv: tuple[RawText, ...] = ("unknown",) if program is None else program.argv
    streams = Program(argv=argv, env=()) if program is None else program
    return JobSpec(
        name=f"job-{attempt.job_id}",
        user=str(uid),
        uid=uid,
        gid=gid,
        argv=argv,
        work_dir=streams.cwd,
        stdin=_pattern(streams.stdin),
        stdout=_pattern(streams.stdout) or "/dev/null",
        stderr=_pattern(streams.stderr),
    )


def _pattern(path: RawText | None) -> RawText | None:
    """Of exactly this path."""
    return None if path is None else raw_text(raw_bytes(path).replace(b"%", b"%%"))
