"""The page of spurd has every command, every exit code, and the bounds of the socket as they are."""

from __future__ import annotations

import re

import pytest

from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.main import COMMANDS
from spurproc.agent.cli.submission import OF_LOGIN
from spurproc.agent.service.bounds import Bounds
from tests.meta.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "spurd.md").read_text()
CELLS = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| "))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_a_row(command: str) -> None:
    assert re.search(rf"`{command}[ `]", CELLS)


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_has_a_row(code: ExitCode) -> None:
    assert f" {int(code)} " in f" {CELLS} "


def test_bounds_are_as_said() -> None:
    bounds = Bounds()
    assert f"above {bounds.small_bytes >> 10} KiB" in PAGE
    assert f"longer than {bounds.message_within_s:g} s" in PAGE
    assert f"no answer for {bounds.taken_within_s:g} s" in PAGE
    assert bounds.idle_s == 300
    assert f"{bounds.connections_of_user} connections, all users together {bounds.connections}" in " ".join(PAGE.split())


def test_the_environment_of_a_login_is_as_said() -> None:
    said = set(re.findall(r"`([A-Z_*]+)`", PAGE.partition("**The environment**")[2].partition("`--export")[0]))
    assert said == {*OF_LOGIN, "LC_*"}
