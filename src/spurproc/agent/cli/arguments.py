"""What is typed: jobs, sizes, spans of time, counts. Each is read strictly; what cannot be meant is named."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from spurproc.command_line.escape import escaped
from spurproc.command_line.parameter import ParameterType
from spurproc.core.tree.termination import KillPlan
from spurproc.errors import InvalidArgument
from spurproc.proto.attempt_id import AttemptId

__all__ = [
    "COUNT",
    "DURATION",
    "GENERIC",
    "GPUS",
    "JOB",
    "KILL_PLAN",
    "SIZE",
    "Gpus",
    "JobName",
    "parse_duration",
    "parse_job",
    "parse_size",
]

T = TypeVar("T")
_JOB = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_SIZE = re.compile(rf"{_NUMBER} ?(?:([KMGTP])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_SPAN = re.compile(rf"{_NUMBER} ?(s|m|min|h|d)?", re.ASCII)
_CLOCK = re.compile(r"(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-5][0-9])", re.ASCII)
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST = 2**63 - 1
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class JobName:
    """A job, or exactly one attempt of it."""

    job_id: int
    run_attempt: int | None = None

    def __str__(self) -> str:
        return str(self.job_id) if self.run_attempt is None else f"{self.job_id}.{self.run_attempt}"


@dataclass(frozen=True, slots=True)
class Gpus:
    """How many, and of which kind if it matters."""

    count: int
    kind: str | None = None


def parse_job(text: str) -> JobName:
    """`7`, or `7.2` for its second attempt. Raises InvalidArgument."""
    try:
        if _JOB.fullmatch(text):
            return JobName(AttemptId(int(text), 1).job_id)
        attempt = AttemptId.parse(text)
    except InvalidArgument:
        raise InvalidArgument(f"{_shown(text)} is not JOB or JOB.ATTEMPT, such as 7 or 7.2") from None
    return JobName(attempt.job_id, attempt.run_attempt)


def parse_size(text: str) -> int:
    """Bytes, or K, M, G, T, P: powers of 1024. Raises InvalidArgument."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"{_shown(text)} is not a size such as 512M or 1.5G")
    power = 0 if found[2] is None else "KMGTP".index(found[2].upper()) + 1
    size = float(found[1]) * 1024**power if "." in found[1] else int(found[1]) * 1024**power
    if size != math.floor(size) or size > _MOST:
        raise InvalidArgument(f"{_shown(text)} is not a whole number of bytes up to {_MOST}")
    return int(size)


def parse_duration(text: str) -> float:
    """Seconds, or with s, m, h, d; or as on a clock, M:SS or H:MM:SS. More than 0. Raises InvalidArgument."""
    clock, span = _CLOCK.fullmatch(text), _SPAN.fullmatch(text)
    if clock is not None:
        seconds = float(int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + int(clock[3]))
    elif span is not None:
        seconds = float(span[1]) * _SECONDS[span[2]]
    else:
        seconds = 0.0
    if seconds <= 0:
        raise InvalidArgument(f"{_shown(text)} is not a span of time above 0, such as 90, 15m, 2h or 1:30:00")
    return seconds


def parse_count(text: str) -> int:
    """A whole number from 1 on. Raises InvalidArgument."""
    if not _COUNT.fullmatch(text) or int(text) == 0:
        raise InvalidArgument(f"{_shown(text)} is not a whole number from 1 to 999999999")
    return int(text)


def parse_gpus(text: str) -> Gpus:
    """`2`, or `2:nvidia`. Raises InvalidArgument."""
    count, colon, kind = text.partition(":")
    if not _COUNT.fullmatch(count) or (colon and not kind):
        raise InvalidArgument(f"{_shown(text)} is not a number of GPUs such as 2 or 2:nvidia")
    return Gpus(int(count), kind or None)


def parse_generic(text: str) -> tuple[str, int]:
    """`NAME=COUNT`, `NAME` for one. Raises InvalidArgument."""
    name, equals, count = text.partition("=")
    if not name or (equals and not _COUNT.fullmatch(count)) or (equals and int(count) == 0):
        raise InvalidArgument(f"{_shown(text)} is not NAME or NAME=COUNT, such as licence=2")
    return name, int(count) if equals else 1


def parse_kill_plan(text: str) -> KillPlan:
    """As in the configuration. Raises InvalidArgument."""
    from spurproc.agent.configuration.list_kinds import Kills  # noqa: PLC0415 - for those who type one

    try:
        return Kills().from_text(text)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def _shown(text: str) -> str:
    return f"'{escaped(text if len(text) <= _SHOWN else text[:_SHOWN] + '...')}'"


class _Parsed(ParameterType[T]):
    """What `parse` makes of the text; what it raises is said with the name of the option."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            converted: T = value
            return converted
        try:
            return self._parse(value)
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)


COUNT = _Parsed("count", parse_count)
JOB = _Parsed("job", parse_job)
SIZE = _Parsed("size", parse_size)
DURATION = _Parsed("duration", parse_duration)
GPUS = _Parsed("gpus", parse_gpus)
GENERIC = _Parsed("generic", parse_generic)
KILL_PLAN = _Parsed("kill_plan", parse_kill_plan)
