"""`spurproc-inspect fsck`: what is inconsistent in a state folder, and what would be done about it. Nothing is changed."""

from __future__ import annotations

from typing import Any

import click

from spurproc.command_line.answer import Answer, Block, Grid, Line, Toned
from spurproc.command_line.output import json_option
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.steps.arguments import state_dir_argument
from spurproc.inspect.steps.findings import Finding, Weight, find_all

__all__ = ["command"]


@click.command("fsck")
@state_dir_argument
@json_option
def command(state_dir: str, as_json: bool) -> Answer:
    """Say what is inconsistent in STATE_DIR, and what would be done about it; change nothing.

    Exit code 0 if nothing is wrong: what is still owed or left behind is told, and is no fault. 1 for a fault.
    """
    findings = find_all(state_dir)
    wrong = any(found.weight is Weight.FAULT for found in findings)
    return Answer(
        exit_code=ExitCode.FAILS if wrong else ExitCode.HOLDS,
        fields={"state_dir": state_dir, "findings": [_fields(found) for found in findings]},
        blocks=_blocks(findings),
    )


def _fields(found: Finding) -> dict[str, Any]:
    return {"name": found.name, "weight": found.weight.value, "what": found.what, "remedy": found.remedy}


def _blocks(findings: list[Finding]) -> list[Block]:
    if not findings:
        return [Line(Toned("nothing is inconsistent, owed or left behind", "good"))]
    rows = [
        (found.name, Toned(found.weight.value, "bad" if found.weight is Weight.FAULT else "weak"), found.what, found.remedy)
        for found in findings
    ]
    return [Grid(("NAME", "WEIGHT", "WHAT", "WHAT WOULD BE DONE"), rows)]
