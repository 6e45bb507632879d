"""The name of one attempt to run a job: what a node accepts, holds resources for, reports the end of and forgets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from spurproc.errors import InvalidArgument
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["AttemptId"]

_TEXT = re.compile(r"([1-9][0-9]{0,18})\.([1-9][0-9]{0,9})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One attempt of one job; its steps are the `RuntimeId`s with the same two numbers, in the same ranges.

    Ordered by job, then by attempt: of two of one job the later is the larger. Raises InvalidArgument, which names the part.
    """

    job_id: int
    run_attempt: int

    def __post_init__(self) -> None:
        self.step(0)

    @classmethod
    def of(cls, runtime_id: RuntimeId) -> Self:
        """The attempt that a step belongs to."""
        return cls(runtime_id.job_id, runtime_id.run_attempt)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Undo `str()`. Each attempt has one text: no leading zeros, both parts."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InvalidArgument(f"cannot read the attempt {text!r:.100}: not <job>.<attempt>")
        return cls(int(match[1]), int(match[2]))

    def step(self, step_id: int) -> RuntimeId:
        """One of its steps."""
        return RuntimeId(self.job_id, self.run_attempt, step_id)

    def __str__(self) -> str:
        return f"{self.job_id}.{self.run_attempt}"
