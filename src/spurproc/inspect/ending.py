"""`spurproc-inspect exit`: how a process, a recorded run or a supervised step ended, and who says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from spurproc.command_line.answer import Answer, Cell, Facts, Toned
from spurproc.command_line.output import json_option
from spurproc.core.exit_info import ExitInfo, ExitKind
from spurproc.core.observation import Liveness
from spurproc.core.recorded.end import NotYet, end_of, info_of
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.held import HeldFolder, HeldProcess, open_folder, open_process
from spurproc.inspect.provenance import (
    NOT_YET,
    exit_fields,
    exit_rows,
    process_fields,
    process_rows,
    run_fields,
    run_rows,
    step_fields,
    step_rows,
)
from spurproc.inspect.target import TARGET, FolderTarget, StepTarget, Target

if TYPE_CHECKING:
    from spurproc.client.step import Step

__all__ = ["NotEnded", "Subject", "command", "end_of_process", "end_of_run", "end_of_step", "ended_answer", "not_ended_answer"]


class Subject(NamedTuple):
    """Whose end it is, for both ways out."""

    fields: dict[str, Any]
    rows: list[tuple[str, Cell]]


class NotEnded(NamedTuple):
    """No end is known: the word for it, and why."""

    state: str
    reason: str


@click.command("exit")
@click.argument("target", type=TARGET)
@json_option
def command(target: Target, as_json: bool) -> Answer:
    """Say how TARGET ended, and who says so.

    Exit code 0 if it succeeded, 1 if it failed or nobody knows, 4 if its end is not known yet.
    """
    if isinstance(target, StepTarget):
        from spurproc.inspect.held_step import open_step  # noqa: PLC0415 - see there

        return _answer(Subject(step_fields(target), step_rows(target)), end_of_step(open_step(target)))
    if isinstance(target, FolderTarget):
        with open_folder(target) as folder:
            return _answer(Subject(run_fields(folder), run_rows(folder)), end_of_run(folder))
    with open_process(target) as process:
        return _answer(Subject(process_fields(process), process_rows(process)), end_of_process(process))


def _answer(subject: Subject, end: ExitInfo | NotEnded) -> Answer:
    if isinstance(end, NotEnded):
        return not_ended_answer(subject, *end)
    return ended_answer(subject, end)


def end_of_run(folder: HeldFolder) -> ExitInfo | NotEnded:
    """How its leader ended."""
    end = end_of(folder.parts)
    return NotEnded(NOT_YET[end], end.value) if isinstance(end, NotYet) else info_of(end)


def end_of_process(process: HeldProcess) -> ExitInfo | NotEnded:
    """How it ended. Where it cannot be told whether it has, that is no end of which nothing is known."""
    liveness = process.pidfd.liveness()
    if liveness is Liveness.ALIVE:
        return NotEnded(NOT_YET[NotYet.RUNNING], NotYet.RUNNING.value)
    info = process.pidfd.exit_info()
    if liveness is Liveness.UNKNOWN and info.kind is ExitKind.UNKNOWN:
        return NotEnded(NOT_YET[NotYet.OUT_OF_SIGHT], info.reason or "it cannot be seen from here")
    return info


def end_of_step(step: Step) -> ExitInfo | NotEnded:
    """How it ended, once that is recorded: its supervisor's answer, or what its records say."""
    status = step.status()
    if status.end is not None:
        return status.end
    reason = f"its state is {status.state.value}, by {status.rests_on}"
    return NotEnded(status.state.value, reason if status.supervised else f"{reason}; `wait` has a host see to it")


def ended_answer(subject: Subject, info: ExitInfo) -> Answer:
    """0 for a success that is known; all else is 1."""
    return Answer(
        exit_code=ExitCode.HOLDS if info.succeeded else ExitCode.FAILS,
        fields={"target": subject.fields, "state": "ended", "reason": None, "exit": exit_fields(info)},
        blocks=(Facts([*subject.rows, *exit_rows(info)]),),
    )


def not_ended_answer(subject: Subject, state: str, reason: str, text: str | None = None) -> Answer:
    """More may be known later. `text` is for a reason that says so itself."""
    return Answer(
        exit_code=ExitCode.STILL_RUNNING,
        fields={"target": subject.fields, "state": state, "reason": reason, "exit": None},
        blocks=(Facts([*subject.rows, ("exit", Toned(text or f"not known yet: {reason}", "weak"))]),),
    )
