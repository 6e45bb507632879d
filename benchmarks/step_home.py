"""State folders for steps that are measured, with a host of their own that is gone with them; and steps with the stamped job."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bare import HERE
from benchmarks.stamped import StampedJob
from spurproc.client.collection import gc
from spurproc.client.host_link import PROGRAM_VARIABLE
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.runtime_id import RuntimeId
from tests.steps import Steps

_OVER_WITHIN_S = 60.0


@contextmanager
def disk() -> Iterator[Path]:
    """A folder where the sources are: /tmp may be in memory, where an fsync costs nothing."""
    above = HERE if os.access(HERE, os.W_OK) else Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(dir=above, prefix=".steps-") as folder:
        yield Path(folder)


@contextmanager
def state_folder(path: Path, stepd: Path | None = None) -> Iterator[Steps]:
    """Where steps are launched, by a host from `stepd` if given. All of them are ended, and the host with them."""
    before = os.environ.get(PROGRAM_VARIABLE)
    if stepd is not None:
        os.environ[PROGRAM_VARIABLE] = str(stepd)
    steps = Steps(path)
    try:
        yield steps
    finally:
        steps.end_all()
        if stepd is not None:
            os.environ.pop(PROGRAM_VARIABLE) if before is None else os.environ.update({PROGRAM_VARIABLE: before})


class StampedStep:
    """A step with the stamped job, launched at `begun_ns`."""

    def __init__(self, steps: Steps, number: int) -> None:
        self._steps = steps
        self.job = StampedJob(steps.path.parent / f"job-{number}")
        plan = SpawnPlan(argv=[self.job.program, self.job.folder])
        self.begun_ns = time.monotonic_ns()
        self.step: Step = launch(StepSpec(runtime_id=RuntimeId(number + 1, 1, 0), plan=plan), steps.path)

    def descriptor(self) -> Descriptor:
        """Who runs it."""
        return self._steps.descriptor(self.step)

    def launch_ms(self) -> float:
        """From the launch call to the first line of the job's main."""
        return (self.job.begun_ns() - self.begun_ns) / 1e6

    def told_ns(self) -> int:
        """Let it end; when one who waits for the end was back with it. It is asleep by the time of the end."""
        self.job.release()
        self.step.wait(_OVER_WITHIN_S)
        return time.monotonic_ns()

    def end(self) -> None:
        """It has ended, or does now; nothing of it is left."""
        if not self.job.ended_ns():
            self.job.release()
        self.step.wait(_OVER_WITHIN_S, completed=True)
        self.step.acknowledge()
        gc(self._steps.path)
        self.job.remove()
