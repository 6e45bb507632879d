"""`spurproc-inspect doctor`: all findings, and whether what is needed is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Literal

import click

from spurproc.command_line.answer import Answer, Block, Cell, Grid, Line, Toned
from spurproc.command_line.output import json_option
from spurproc.core.facilities import Facilities
from spurproc.errors import SpurprocError
from spurproc.inspect.doctor.cgroups import find_cgroups
from spurproc.inspect.doctor.facilities import find_facilities
from spurproc.inspect.doctor.finding import Finding, Status
from spurproc.inspect.doctor.limits import find_limits
from spurproc.inspect.doctor.program import find_program
from spurproc.inspect.doctor.surroundings import find_surroundings
from spurproc.inspect.exit_code import ExitCode

__all__ = ["command"]

_TONES: dict[Status, Literal["good", "bad", "weak"]] = {
    Status.OK: "good",
    Status.WEAKER: "weak",
    Status.LIMIT: "weak",
    Status.MISSING: "bad",
    Status.UNKNOWN: "weak",
}
_TITLES = {
    "host": "Where we stand",
    "program": "The program",
    "facility": "Facilities, each tried",
    "cgroup": "Cgroups, read only: none was made",
    "limit": "Limits",
}


@click.command("doctor")
@json_option
def command(as_json: bool) -> Answer:
    """Say what this host allows and which limits it has.

    What is lost without the rest is said too. Exit code 0 if all that is needed is there, 1 if not.
    """
    findings = find_all()
    missing = [found.name for found in findings if found.status is Status.MISSING]
    return Answer(
        exit_code=ExitCode.FAILS if missing else ExitCode.HOLDS,
        fields={
            "version": version("spurproc"),
            "needed": {"holds": not missing, "missing": missing},
            "findings": [found.to_json() for found in findings],
        },
        blocks=[*_blocks(findings), Line(_verdict(missing))],
    )


def find_all() -> list[Finding]:
    """Everything. What cannot be looked at is UNKNOWN, with the reason."""
    here = Facilities.current()
    looks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        *(("host", lambda look=look: [look()]) for look in find_surroundings()),
        ("program", lambda: [find_program()]),
        ("facility", lambda: find_facilities(here)),
        ("cgroup", lambda: find_cgroups(here)),
        ("limit", lambda: find_limits(here)),
    ]
    return [found for area, look in looks for found in _looked(area, look)]


def _looked(area: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(look())
    except (SpurprocError, OSError) as error:
        found.append(Finding(area=area, name="-", status=Status.UNKNOWN, value=str(error), meaning="", source="the error"))
    return found


def _blocks(findings: Sequence[Finding]) -> list[Block]:
    blocks: list[Block] = []
    for area, title in _TITLES.items():
        rows = [_row(found) for found in findings if found.area == area]
        blocks += [Line(Toned(title, "title")), Grid(("", "NAME", "FOUND", "WHAT IT MEANS"), rows)]
    return blocks


def _row(found: Finding) -> tuple[Cell, ...]:
    return Toned(found.status.value, _TONES[found.status]), found.name, found.value, found.meaning


def _verdict(missing: list[str]) -> Cell:
    if missing:
        return Toned(f"needed and missing: {', '.join(missing)}", "bad")
    return Toned("all that is needed is there", "good")
