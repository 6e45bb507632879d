"""The name of exactly one process tree: a job, which attempt to run it, and which step of that attempt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from spurproc.errors import InvalidArgument

__all__ = ["BATCH_STEP", "EXTERN_STEP", "INTERACTIVE_STEP", "RuntimeId"]

BATCH_STEP = 0xFFFFFFFE
"""The job script."""
EXTERN_STEP = 0xFFFFFFFD
"""Holds an allocation and has no leader."""
INTERACTIVE_STEP = 0xFFFFFFFC
"""Somebody's shell."""
_FIRST_RESERVED = INTERACTIVE_STEP
_NAMES = {BATCH_STEP: "batch", EXTERN_STEP: "extern", INTERACTIVE_STEP: "interactive"}
_NUMBERS = {name: number for number, name in _NAMES.items()}
_JOB_LAST = 2**63 - 1
_U32 = 2**32 - 1
_TEXT = re.compile(r"([1-9][0-9]{0,18})\.([1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,9}|batch|extern|interactive)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class RuntimeId:
    """One step of one attempt of one job. Every request carries all three, and is compared for equality before the act.

    `job_id` and `run_attempt` start at 1: an attempt of 0, or a missing one, never matches. `step_id` is an unsigned 32-bit
    number; three are reserved and shown by name. Raises InvalidArgument, which names the part.
    """

    job_id: int
    run_attempt: int
    step_id: int

    BATCH: ClassVar[int] = BATCH_STEP
    """The step of the job script; its text is `batch`."""
    EXTERN: ClassVar[int] = EXTERN_STEP
    """The step that holds an allocation and has no leader; `extern`."""
    INTERACTIVE: ClassVar[int] = INTERACTIVE_STEP
    """The step of somebody's shell; `interactive`."""

    def __post_init__(self) -> None:
        for name, value, first, last in (
            ("job_id", self.job_id, 1, _JOB_LAST),
            ("run_attempt", self.run_attempt, 1, _U32),
            ("step_id", self.step_id, 0, _U32 - 1),
        ):
            if type(value) is not int or not first <= value <= last:  # a bool is an int, and no number of a job
                raise InvalidArgument(f"{name}: {value!r} is not a number from {first} to {last}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Undo `str()`. Each id has one text, so one folder: no leading zeros, reserved steps by name, all three parts."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InvalidArgument(f"cannot read the step id {text!r:.100}: not <job>.<attempt>.<step>")
        job_id, run_attempt, step = match.groups()
        step_id = _NUMBERS.get(step)
        if step_id is None:
            step_id = int(step)
            if step_id >= _FIRST_RESERVED:
                raise InvalidArgument(f"cannot read the step id {text!r}: {step} is reserved, and written by name")
        return cls(int(job_id), int(run_attempt), step_id)

    @property
    def is_extern(self) -> bool:
        """Whether it is the step without a leader."""
        return self.step_id == EXTERN_STEP

    def __str__(self) -> str:
        return f"{self.job_id}.{self.run_attempt}.{_NAMES.get(self.step_id, self.step_id)}"
