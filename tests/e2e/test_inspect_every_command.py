"""What holds for each command of spurproc-inspect, on a real step: 80 columns, JSON that is documented, help."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.client.step import Step
from spurproc.inspect.main import COMMANDS
from tests.asleep import await_sleep
from tests.inspect_program import COLUMNS, Said, inspect, inspect_here, inspect_on_terminal, plain, words
from tests.steps import Steps, folder_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "inspect.md"
FOLDER, STATE, STEP = "{folder}", "{state}", "{step}"
ARGUMENTS = {
    "doctor": [],
    "events": [STATE, STEP],
    "exit": [FOLDER],
    "fsck": [STATE],
    "logs": [STATE, STEP],
    "ls": [STATE],
    "show": [FOLDER],
    "signal": [FOLDER, "0"],
    "tree": [FOLDER],
    "wait": [FOLDER, "--timeout", "0"],
    "watch": [FOLDER, "--timeout", "0"],
}
NEEDS = {"watch": pytest.mark.needs_proc_events}
EVERY = pytest.mark.parametrize("command", [pytest.param(name, marks=NEEDS.get(name, ())) for name in COMMANDS])
WIDE = "w" * 200


@pytest.fixture
def arguments(steps: Steps, tmp_path: Path) -> dict[str, list[str]]:
    """For each command, of a step that runs, whose names are wider than a terminal."""
    (tmp_path / "out").write_text(WIDE + "\n")
    step = steps.launch(["sh", "-c", "sleep 1000; :", WIDE], stdout=tmp_path / "out")
    _await_whole_tree(steps, step)
    values = {"folder": folder_of(step), "state": steps.path, "step": step.runtime_id}
    return {name: [name, *(argument.format(**values) for argument in given)] for name, given in ARGUMENTS.items()}


def _await_whole_tree(steps: Steps, step: Step) -> None:
    """Until the leader has forked all that it will, and nobody does anything: else two looks may differ."""
    leader = steps.descriptor(step).leader
    assert leader is not None
    await_sleep(leader.pid, "do_wait")
    (child,) = Path(f"/proc/{leader.pid}/task/{leader.pid}/children").read_text().split()
    await_sleep(int(child), "nanosleep")


@EVERY
def test_nothing_is_wider_than_a_terminal_and_nothing_is_lost(arguments: dict[str, list[str]], command: str) -> None:
    """But a step's own bytes, which are copied; piped, no line is broken."""
    on_terminal, piped = inspect_on_terminal(*arguments[command]), inspect(*arguments[command])
    assert on_terminal.code == piped.code
    assert piped.err == ""
    if command == "logs":
        assert on_terminal.out == piped.out
        return
    assert max(map(len, plain(on_terminal.out).splitlines())) <= COLUMNS
    assert "\x1b" not in piped.out
    assert _told(piped) == _told(on_terminal)
    assert WIDE in words(on_terminal.out) or command != "show"


def _told(said: Said) -> str:
    """The letters alone: numbers may differ from one call to the next, and a grid is folded by columns."""
    return "".join(sorted(re.sub(r"[^A-Za-z]", "", plain(said.out))))


@EVERY
def test_what_is_in_json_is_documented(arguments: dict[str, list[str]], command: str) -> None:
    documented = _documented(command)
    said = inspect(*arguments[command], "--json")
    documents = list(_documents(said.out))
    assert documents
    for document in documents:
        assert document["schema_version"] == 1
        assert document["command"] == command
        assert document.keys() <= documented, document.keys() - documented


def _documents(text: str) -> Iterator[dict[str, object]]:
    """One, or one a line."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:]


def _documented(command: str) -> set[str]:
    """The names in the table of fields that is said to be in the command's answer; of `watch` its own paragraph's too."""
    page = REFERENCE.read_text(encoding="utf-8")
    table = page[page.index("| field | in | meaning |") :].split("\n\n")[0]
    named: set[str] = set()
    for line in table.splitlines()[2:]:
        fields, commands, _ = line.strip("|").split(" | ", 2)
        if commands.startswith("all") or f"`{command}`" in commands:
            named |= set(re.findall(r"`(\w+)`", fields))
    if command == "watch":
        (paragraph,) = (part for part in page.split("\n\n") if part.startswith("`watch` prints one object a line"))
        named |= set(re.findall(r"`(\w+)`", paragraph))
    return named


def test_every_command_is_here() -> None:
    assert set(ARGUMENTS) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(capfd: pytest.CaptureFixture[str], command: str) -> None:
    """With the exit codes: whoever calls it from a script need not look further."""
    said = inspect_here(capfd, command, "--help")
    assert (said.code, said.err) == (0, "")
    assert f"Usage: spurproc-inspect {command} " in said.out
    assert "Exit code" in said.out
    assert max(map(len, said.out.splitlines())) <= COLUMNS
    assert re.search(rf"^\| `{command}[ `]", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
