"""Jobs, attempts and nodes as JSON, and in words. The names of fields are a promise; new ones may come."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.shown import AttemptView, JobView, ProgramView
from spurproc.command_line.answer import Cell, Toned
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.proto.raw_text import RawText, raw_bytes

__all__ = [
    "allocation_fields",
    "attempt_fields",
    "cpu_list",
    "end_cell",
    "inventory_fields",
    "job_fields",
    "program_fields",
    "resources_text",
    "size_text",
    "state_cell",
    "text_of",
    "time_text",
]


def text_of(raw: RawText | None) -> str | None:
    """As Python has it: a byte that is no UTF-8 as a surrogate, which both ways out escape."""
    return None if raw is None else os.fsdecode(raw_bytes(raw))


def job_fields(job: JobView) -> dict[str, Any]:
    """All of it."""
    request = job.resources
    return {
        "job_id": job.attempt.job_id,
        "run_attempt": job.attempt.run_attempt,
        "state": job.state,
        "phase": job.phase,
        "held_because": job.held_because,
        "name": job.name,
        "uid": job.uid,
        "user": job.user,
        "submitted_by": job.submitted_by,
        "submitted_at": job.submitted_at,
        "requeue_wanted": job.requeue_wanted,
        "resources": None if request is None else _request_fields(request),
        "exit": None if job.end is None else job.end.to_json(),
        "cancelled": job.cancelled,
        "damaged": job.damaged,
    }


def _request_fields(request: ResourceRequest) -> dict[str, Any]:
    return {
        "cpus": request.cpus,
        "memory_bytes": request.memory_bytes,
        "gpus": request.gpus,
        "gpu_kind": request.gpu_kind,
        "generic": dict(request.generic),
    }


def attempt_fields(attempt: AttemptView) -> dict[str, Any]:
    """All of it."""
    return {
        "job_id": attempt.attempt.job_id,
        "run_attempt": attempt.attempt.run_attempt,
        "dispatched_at": attempt.dispatched_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "exit": None if attempt.end is None else attempt.end.to_json(),
        "cancelled": attempt.cancelled,
        "cancelled_by": attempt.cancelled_by,
        "cancelled_because": attempt.cancelled_because,
        "node_fault": attempt.node_fault,
        "allocation": None if attempt.allocation is None else allocation_fields(attempt.allocation),
        "work_dir": text_of(attempt.work_dir),
        "stdout": text_of(attempt.stdout),
        "stderr": text_of(attempt.stderr),
        "not_enforced": list(attempt.not_enforced),
        "damaged": attempt.damaged,
    }


def program_fields(program: ProgramView) -> dict[str, Any]:
    """All of it."""
    return {
        "argv": [text_of(argument) for argument in program.argv],
        "script_bytes": program.script_bytes,
        "work_dir": text_of(program.work_dir),
        "gid": program.gid,
        "groups": list(program.groups),
        "time_limit_s": program.time_limit_s,
        "requeue": program.requeue,
    }


def allocation_fields(allocation: Allocation) -> dict[str, Any]:
    """What somebody has."""
    return {
        "cpus": list(allocation.cpus),
        "memory_bytes": allocation.memory_bytes,
        "gpus": [list(gpu.names) for gpu in allocation.gpus],
        "generic": dict(allocation.generic),
    }


def inventory_fields(inventory: Inventory | None) -> dict[str, Any] | None:
    """What a node has; None where it is not known."""
    if inventory is None:
        return None
    return {
        "cpus": list(inventory.cpus),
        "memory_bytes": inventory.memory_bytes,
        "gpus": [{"kind": gpu.kind, "model": gpu.model, "names": list(gpu.names)} for gpu in inventory.gpus],
        "generic": dict(inventory.generic),
    }


def state_cell(job: JobView) -> Cell:
    """How it stands, in a word or two: what its attempt does where it has begun, how it ended where it has."""
    if job.end is not None:
        return end_cell(job.end, cancelled=job.cancelled)
    word = job.phase or job.state
    if job.held_because is not None:
        return Toned(word, "bad")
    return Toned(word, "good") if word == "running" else word


def end_cell(end: ExitInfo, *, cancelled: bool = False) -> Cell:
    """How it ended; that it was cancelled is another fact."""
    text = _end_text(end) + (" (cancelled)" if cancelled else "")
    if end.succeeded:
        return Toned(text, "good")
    return Toned(text, "weak" if end.kind is ExitKind.UNKNOWN else "bad")


def _end_text(end: ExitInfo) -> str:
    if end.kind is ExitKind.NOT_STARTED and end.reason:
        return f"not started: {end.reason}"
    return str(end)


def resources_text(request: ResourceRequest | None) -> str:
    """What a job asked for."""
    if request is None:
        return "cannot be read"
    gpus = f"{request.gpus} {request.gpu_kind or 'GPU'}" if request.gpus else ""
    return _listed(_counted(request.cpus, "CPU"), request.memory_bytes, gpus, request.generic)


def _listed(cpus: str, memory_bytes: int, gpus: str, generic: Mapping[str, int]) -> str:
    memory = size_text(memory_bytes) if memory_bytes else ""
    return ", ".join(filter(None, (cpus, memory, gpus, *(f"{count} {name}" for name, count in generic.items()))))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def cpu_list(cpus: Iterable[int]) -> str:
    """As Linux writes them. Source: cpuset(7), "List format"."""
    ranges: list[list[int]] = []
    for cpu in cpus:
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def size_text(size: int) -> str:
    """In the largest unit that leaves a whole number of tenths, or nearly."""
    number, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        units.pop(0)
    return f"{number:.10g} {units[0]}" if number == int(number) else f"{number:.1f} {units[0]}"


def time_text(at: float | None) -> str | None:
    """A wall clock time, here."""
    if at is None:
        return None
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, OSError, ValueError):
        return f"{at!r} s"
