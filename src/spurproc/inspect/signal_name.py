"""Signals as people write them: KILL, sigkill, 9, RTMIN+3."""

from __future__ import annotations

import re
import signal
from typing import Any

import click

from spurproc.command_line.parameter import ParameterType

__all__ = ["SIGNAL", "parse_signal", "signal_text"]

_NUMBER = re.compile(r"0|[1-9][0-9]?", re.ASCII)
_REAL_TIME = re.compile(r"RT(MIN\+|MAX-)([0-9]{1,2})", re.ASCII)


def parse_signal(text: str) -> int | None:
    """Its number, 0 to 64; None for what is no signal."""
    if _NUMBER.fullmatch(text) is not None:
        return int(text) if int(text) < signal.NSIG else None
    name = text.upper().removeprefix("SIG") if text.isascii() else ""
    if (real_time := _REAL_TIME.fullmatch(name)) is not None:
        step = int(real_time[2])
        number = signal.SIGRTMIN + step if real_time[1] == "MIN+" else signal.SIGRTMAX - step
        return int(number) if signal.SIGRTMIN <= number <= signal.SIGRTMAX else None
    try:
        return int(signal.Signals[f"SIG{name}"])
    except KeyError:
        return None


def signal_text(number: int) -> str:
    """Its name, or what it is without one."""
    if number == 0:
        return "signal 0, which only asks"
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


class _SignalType(ParameterType[int]):
    name = "signal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = value if isinstance(value, int) else parse_signal(str(value))
        if number is None:
            self.fail(f"{str(value)[:60]!r} is not a signal: a name with or without SIG, or a number from 0 to 64", param, ctx)
        return number


SIGNAL = _SignalType()
"""The type of the argument."""
