"""`spurproc-inspect ls`: the steps of a state folder, one a line."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from spurproc.client.adoption import RefusedFolder, adopt
from spurproc.client.status import StepStatus
from spurproc.client.step import Step
from spurproc.command_line.answer import Answer, Block, Cell, Grid, Line, Toned
from spurproc.command_line.output import json_option
from spurproc.core.observation import Liveness
from spurproc.errors import AlreadyGone, SpurprocError
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.provenance import exit_fields
from spurproc.inspect.steps.arguments import state_dir_argument

__all__ = ["command"]

_HEADINGS = ("STEP", "STATE", "TREE", "END", "SOURCE", "OWED")


class _Listed(NamedTuple):
    step: Step
    status: StepStatus


@click.command("ls")
@state_dir_argument
@json_option
def command(state_dir: str, as_json: bool) -> Answer:
    """List the supervised steps of STATE_DIR.

    Exit code 0 if each can be read, 1 if one cannot.
    """
    adoption = adopt(state_dir)
    listed, refused = [], list(adoption.refused)
    for step in adoption.steps:
        try:
            listed.append(_Listed(step, step.status()))
        except AlreadyGone:  # removed meanwhile
            continue
        except SpurprocError as error:
            refused.append(RefusedFolder(name=str(step.runtime_id), error=error))
    return Answer(
        exit_code=ExitCode.FAILS if refused else ExitCode.HOLDS,
        fields={"state_dir": state_dir, "steps": list(map(_fields, listed)), "refused": list(map(_refused_fields, refused))},
        blocks=[*_grid(listed), *_refusals(refused)],
    )


def _fields(listed: _Listed) -> dict[str, Any]:
    status = listed.status
    return {
        "step": str(listed.step.runtime_id),
        "state": status.state.value,
        "supervised": status.supervised,
        "liveness": status.liveness.liveness.value,
        "end": None if status.end is None else exit_fields(status.end),
        "acknowledged": status.acknowledged,
        "owed": status.owed.value,
        "held_by": list(status.held_by),
        "blocked_at": status.blocked_at,
    }


def _refused_fields(refused: RefusedFolder) -> dict[str, str]:
    return {"name": refused.name, "error": str(refused.error)}


def _grid(listed: list[_Listed]) -> list[Block]:
    return [Grid(_HEADINGS, [_row(one) for one in listed])] if listed else [Line("no steps")]


def _row(listed: _Listed) -> list[Cell]:
    status = listed.status
    state: Cell = status.state.value if status.supervised else f"{status.state.value}, by its records"
    if status.held_by or status.blocked_at:
        state = Toned(str(state), "bad" if status.held_by else "weak")
    end, lives = status.end, status.liveness.liveness
    return [
        str(listed.step.runtime_id),
        state,
        Toned(lives.value, "good") if lives is Liveness.ALIVE else lives.value,
        "-" if end is None else Toned(str(end), "good" if end.succeeded else "bad"),
        "-" if end is None else end.source.value,
        status.owed.value,
    ]


def _refusals(refused: list[RefusedFolder]) -> list[Block]:
    return [Line(Toned(f"{one.name}: {one.error}", "bad")) for one in refused]
