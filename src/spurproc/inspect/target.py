"""What a command is asked about: `PID`, `PID:INODE` or the `FOLDER` of a recorded run. A pure parser, and the click argument."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import click

from spurproc.errors import InvalidArgument
from spurproc.inspect.escape import escaped
from spurproc.inspect.parameter import ParameterType

__all__ = ["TARGET", "FolderTarget", "InodeTarget", "PidTarget", "Target", "parse_target"]

_FORMS = "PID, PID:INODE or the folder of a recorded run (./NAME if its name looks like a number)"
_DECIMAL = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)
_PID_MAX = 0x7FFFFFFF
_INODE_MAX = 2**64 - 1
_SHOWN = 60


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


Target = PidTarget | InodeTarget | FolderTarget


def parse_target(text: str) -> Target:
    """Strict: what looks like a number is one or is refused; anything else, and all that has a `/`, is a folder.

    Raises InvalidArgument, which names what is wrong with it.
    """
    if not text or "\0" in text:
        raise InvalidArgument(f"cannot read TARGET {_shown(text)}: not {_FORMS}")
    if "/" in text or not _looks_like_number(text):
        return FolderTarget(text)
    pid, colon, inode = text.partition(":")
    number = _number("PID", pid, _PID_MAX, text)
    if not colon:
        return PidTarget(number)
    return InodeTarget(number, _number("INODE", inode, _INODE_MAX, text))


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
        if isinstance(value, PidTarget | InodeTarget | FolderTarget):
            return value
        return parse_target(str(value))


TARGET = _TargetType()
"""The type of the argument: `@click.argument("target", type=TARGET)`."""
