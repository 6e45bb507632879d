"""`spurproc-inspect events`: what has happened to a step, from its journal."""

from __future__ import annotations

import time
from typing import Any

import click

from spurproc.client.journal_event import JournalEvent
from spurproc.client.step import Step
from spurproc.command_line.answer import Line
from spurproc.command_line.output import Stream, json_option
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.provenance import exit_fields
from spurproc.inspect.steps.arguments import state_dir_argument, step_argument
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["command"]


@click.command("events")
@state_dir_argument
@step_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the step is over.")
@json_option
def command(state_dir: str, runtime_id: RuntimeId, follow: bool, as_json: bool) -> ExitCode:
    """Print what has happened to STEP, in order, from its journal.

    Exit code 0; with --json one object a line.
    """
    stream = Stream("events", as_json=as_json)
    for event in Step.open(state_dir, runtime_id).events(follow=follow):
        stream.put(_fields(event), Line(_text(event)))
    return ExitCode.HOLDS


def _fields(event: JournalEvent) -> dict[str, Any]:
    return {
        "event": event.kind.value,
        "at": event.at,
        "hook": event.hook,
        "detail": event.detail,
        "end": None if event.end is None else exit_fields(event.end),
    }


def _text(event: JournalEvent) -> str:
    whole = int(event.at)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(whole)) + f".{int(event.at % 1 * 1000):03d}Z"
    parts = [event.hook, None if event.end is None else f"{event.end} ({event.end.source.value})", event.detail]
    told = ", ".join(filter(None, parts))
    return f"{moment}  {event.kind.value}" + (f": {told}" if told else "")
