"""What a job is told by its environment: what was submitted with it, and what the node gave it. Nothing of the agent's own.

| variable | what |
|---|---|
| `SPURD_JOB_ID`, `SPURD_RUN_ATTEMPT`, `SPURD_STEP_ID` | which job, attempt and step it is; the step of a script is `batch` |
| `SPURD_JOB_NAME`, `SPURD_NODE` | the name of the job, and of the node |
| `SPURD_WORK_DIR` | where it was started |
| `SPURD_CPUS`, `SPURD_CPU_COUNT` | the CPUs that are its own, as `0,2,3`, and how many |
| `SPURD_MEMORY_BYTES` | its memory; 0: none was asked for |
| `SPURD_GENERIC` | its generic resources, as `license=2,seat=1`; empty: none |
| `SPURD_GPUS`, `SPURD_GPU_COUNT` | its GPUs by PCI address, else UUID; empty: none |
| `CUDA_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES` | its GPUs of that family by UUID; empty: none is to be seen |

Variables that name GPUs by a position among others (`HIP_VISIBLE_DEVICES`, `GPU_DEVICE_ORDINAL`) are left out of what was
submitted: the position was one among the GPUs of the machine of its submitter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spurproc.agent.inventory.reading import Gpu
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.allocation import Allocation
from spurproc.errors import Unsupported
from spurproc.proto.raw_text import raw_bytes
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["Surroundings", "job_environment", "resource_variables", "why_hidden"]

_VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES"}
_BY_POSITION = frozenset({b"HIP_VISIBLE_DEVICES", b"GPU_DEVICE_ORDINAL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a step of a job runs."""

    runtime_id: RuntimeId
    node: str
    work_dir: bytes
    allocation: Allocation


def job_environment(spec: JobSpec, where: Surroundings) -> list[bytes]:
    """`NAME=value` entries, all of them. What the node says comes instead of what was submitted under the same name.

    Raises Unsupported for a GPU that its family's variable cannot name, for it would stay hidden.
    """
    told = {name.encode(): value for name, value in _told(spec, where).items()}
    submitted = [entry for entry in map(raw_bytes, spec.env) if entry.partition(b"=")[0] not in told.keys() | _BY_POSITION]
    return submitted + [name + b"=" + value for name, value in told.items()]


def _told(spec: JobSpec, where: Surroundings) -> Mapping[str, bytes]:
    job_id, run_attempt, step = str(where.runtime_id).split(".")
    texts = {
        "SPURD_JOB_ID": job_id,
        "SPURD_RUN_ATTEMPT": run_attempt,
        "SPURD_STEP_ID": step,
        "SPURD_JOB_NAME": spec.name,
        "SPURD_NODE": where.node,
    }
    texts |= resource_variables(where.allocation)
    return {name: text.encode() for name, text in texts.items()} | {"SPURD_WORK_DIR": where.work_dir}


def resource_variables(given: Allocation) -> dict[str, str]:
    """What it was given, by the variables of the table above. Raises Unsupported as `job_environment`."""
    texts = {
        "SPURD_CPUS": ",".join(map(str, given.cpus)),
        "SPURD_CPU_COUNT": str(len(given.cpus)),
        "SPURD_MEMORY_BYTES": str(given.memory_bytes),
        "SPURD_GENERIC": ",".join(f"{name}={count}" for name, count in sorted(given.generic.items())),
        "SPURD_GPUS": ",".join(map(str, given.gpus)),
        "SPURD_GPU_COUNT": str(len(given.gpus)),
    }
    return texts | {variable: ",".join(_uuids(given.gpus, family)) for family, variable in _VISIBLE.items()}


def why_hidden(gpu: Gpu) -> str | None:
    """Why its family's variable cannot name it, so that no job it is given to could see it; None where it can."""
    variable = _VISIBLE.get(_family(gpu))
    return f"it has no UUID for {variable}" if variable is not None and gpu.uuid is None else None


def _family(gpu: Gpu) -> str:
    return gpu.kind.partition("/")[0].partition(".")[0]


def _uuids(gpus: tuple[Gpu, ...], family: str) -> list[str]:
    """By name: a position is another device as soon as one comes or goes."""
    found = []
    for gpu in gpus:
        if _family(gpu) == family:
            if gpu.uuid is None:
                raise Unsupported(f"cannot show the GPU {gpu} to a job: {why_hidden(gpu)}")
            found.append(gpu.uuid)
    return found
