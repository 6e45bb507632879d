"""What a command is asked about: a process, or the folder of a recorded run or of a step. A pure parser, and the argument."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import click

from spurproc.command_line.escape import escaped
from spurproc.command_line.parameter import ParameterType
from spurproc.errors import InvalidArgument
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["TARGET", "FolderTarget", "InodeTarget", "PidTarget", "StepTarget", "Target", "parse_target"]

_FORMS = "PID, PID:INODE or the folder of a recorded run or of a step (./NAME if its name looks like a number)"
_DECIMAL = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)
_PID_MAX = 0x7FFFFFFF
_INODE_MAX = 2**64 - 1
_SHOWN = 60
_STEPS = "runtime"  # the folder of all steps in a state folder; what holds its name is not loaded for a number


@dataclass(frozen=True, slots=True)
class PidTarget:
    """The process that has this number at the moment of the call: no identity yet."""

    pid: int

    def __str__(self) -> str:
        return f"process {self.pid}"


@dataclass(frozen=True, slots=True)
class InodeTarget:
    """The process with this number whose pidfd has this inode, and no other."""

    pid: int
    inode: int

    def __str__(self) -> str:
        return f"process {self.pid}:{self.inode}"


@dataclass(frozen=True, slots=True)
class FolderTarget:
    """The run recorded in this folder."""

    path: str

    def __str__(self) -> str:
        return f"run {escaped(self.path)}"


@dataclass(frozen=True, slots=True)
class StepTarget:
    """The supervised step whose records stand in `<state_dir>/runtime/<runtime_id>`."""

    state_dir: str
    runtime_id: RuntimeId

    def __str__(self) -> str:
        return f"step {self.runtime_id} in {escaped(self.state_dir)}"


Target = PidTarget | InodeTarget | FolderTarget | StepTarget


def parse_target(text: str) -> Target:
    """Strict: what looks like a number is one or is refused; anything else, and all that has a `/`, is a folder.

    It is a step's where it ends in `runtime/<step>`, else a run's. Raises InvalidArgument, which names what is wrong with it.
    """
    if not text or "\0" in text:
        raise InvalidArgument(f"cannot read TARGET {_shown(text)}: not {_FORMS}")
    if "/" in text or not _looks_like_number(text):
        return _step(text) or FolderTarget(text)
    pid, colon, inode = text.partition(":")
    number = _number("PID", pid, _PID_MAX, text)
    if not colon:
        return PidTarget(number)
    return InodeTarget(number, _number("INODE", inode, _INODE_MAX, text))


def _step(path: str) -> StepTarget | None:
    above, name = os.path.split(os.path.abspath(path))
    state_dir, steps = os.path.split(above)
    if steps != _STEPS:
        return None
    try:
        return StepTarget(state_dir, RuntimeId.parse(name))
    except InvalidArgument:
        return None


def _number(name: str, text: str, high: int, whole: str) -> int:
    """ASCII digits, no sign, no leading zero, not 0. Raises InvalidArgument, which names `whole`."""
    start = f"cannot read TARGET {_shown(whole)}: {name}"
    if text.isascii() and text.isdigit() and len(text) > 1 and text[0] == "0":
        raise InvalidArgument(f"{start} has a leading zero")
    if _DECIMAL.fullmatch(text) is None:
        digits = text.isascii() and text.isdigit()
        why = "is 0" if text == "0" else f"is greater than {high}" if digits else "is not a number in the digits 0-9"
        raise InvalidArgument(f"{start} {why}")
    if int(text) > high:
        raise InvalidArgument(f"{start} is greater than {high}")
    return int(text)


def _looks_like_number(text: str) -> bool:
    """Digits of any script, signs, colons and spaces alone, or NUMBER:ANYTHING: a slip, hardly the name of a folder."""
    return all(character.isdigit() or character.isspace() or character in "+-,_" for character in text.partition(":")[0])


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return f"'{escaped(cut)}'"


class _TargetType(ParameterType[Target]):
    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        if isinstance(value, Target):
            return value
        found = parse_target(str(value))
        if isinstance(found, StepTarget) and os.path.lexists(f"{value}/run.json"):
            return FolderTarget(str(value))  # a recorded run, in a folder that is called like a step's
        return found


TARGET = _TargetType()
"""The type of the argument: `@click.argument("target", type=TARGET)`."""
