"""`spurproc-inspect wait`: until a process, the leader of a recorded run or a supervised step has ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from spurproc.command_line.answer import Answer
from spurproc.command_line.output import json_option
from spurproc.command_line.parameter import ParameterType
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import WaitTimeout
from spurproc.inspect.ending import Subject, ended_answer, not_ended_answer
from spurproc.inspect.held import open_folder, open_process
from spurproc.inspect.provenance import process_fields, process_rows, run_fields, run_rows, step_fields, step_rows
from spurproc.inspect.target import TARGET, FolderTarget, StepTarget, Target

__all__ = ["SECONDS", "command"]


class _SecondsType(ParameterType[float]):
    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            seconds = float(text if text.isascii() and "_" not in text else "nan")  # 1_0 and other scripts' digits are Python's
        except ValueError:
            seconds = math.nan
        if not seconds >= 0:
            self.fail(f"{text[:60]!r} is not a number of seconds, 0 or more", param, ctx)
        return seconds


SECONDS = _SecondsType()
"""The type of a `--timeout`: a span of seconds, `inf` included."""


@click.command("wait")
@click.argument("target", type=TARGET)
@click.option("--timeout", "timeout_s", type=SECONDS, metavar="S", help="Seconds to wait at most; for ever without.")
@json_option
def command(target: Target, timeout_s: float | None, as_json: bool) -> Answer:
    """Wait for the end of TARGET, and say how it was.

    Of a run or a step, the end of its leader. Exit code 0 or 1 as for `exit`, 4 if it is not known after S seconds.
    """
    if isinstance(target, StepTarget):
        from spurproc.inspect.held_step import open_step  # noqa: PLC0415 - see there

        return _waited(Subject(step_fields(target), step_rows(target)), open_step(target).wait, timeout_s)
    if isinstance(target, FolderTarget):
        with open_folder(target) as folder:
            return _waited(Subject(run_fields(folder), run_rows(folder)), folder.run.wait, timeout_s)
    with open_process(target) as process:
        return _waited(Subject(process_fields(process), process_rows(process)), process.pidfd.wait, timeout_s)


def _waited(subject: Subject, wait: Callable[[float | None], ExitInfo], timeout_s: float | None) -> Answer:
    try:
        info = wait(timeout_s)
    except WaitTimeout as error:
        return not_ended_answer(subject, "timeout", str(error), str(error))
    return ended_answer(subject, info)
