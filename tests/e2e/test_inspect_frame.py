"""What all commands of spurproc-inspect have in common: one line for a mistake, no traceback, and an exit code that says it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spurproc.inspect.main import COMMANDS
from tests.asleep import await_waiting
from tests.inspect_program import (
    COLUMNS,
    PROGRAM,
    TIMEOUT_S,
    Said,
    assert_one_line,
    environment,
    inspect,
    inspect_on_terminal,
    plain,
)
from tests.relatives import Blocked


@pytest.mark.parametrize("command", ["show", "watch"])
def test_an_error_is_a_document_too(command: str) -> None:
    """In one line, as `watch` prints all."""
    said = inspect(command, "2147483647", "--json")
    line, end = said.out.split("\n")
    document = json.loads(line)
    assert (document["command"], end) == (command, "")
    assert document["exit_code"] == 1
    assert document["error"] == {"kind": "AlreadyGone", "message": "cannot open process 2147483647: No such process"}


def test_an_unknown_mask_is_named() -> None:
    said = inspect("show", "1", env={"SPURPROC_MASK": "bogus"})
    assert said.code == 2
    assert_one_line(said, "'bogus'")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["show", "--help"]])
def test_help(arguments: list[str]) -> None:
    said = inspect(*arguments)
    assert said.code == 0
    assert said.err == ""
    assert "Usage: spurproc-inspect" in said.out


def test_help_lists_every_command_and_the_exit_codes() -> None:
    said = inspect_on_terminal("--help")
    for name in COMMANDS:
        assert f"\n  {name} " in said.out
    assert "4 timeout and still running" in said.out
    assert max(map(len, said.out.splitlines())) <= COLUMNS


def test_module_and_script_are_the_same() -> None:
    done = subprocess.run([sys.executable, "-m", "spurproc.inspect", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == inspect("--version").out


def shell(script: str, *arguments: str) -> Said:
    """Run a script of bash in which "$0" is the program."""
    done = subprocess.run(
        ["bash", "-c", script, str(PROGRAM), *arguments],
        env=environment(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"], ["--help"]])
def test_a_reader_that_goes_away(arguments: list[str]) -> None:
    """The pipe has no reader from the start, so that the first write meets that: 141, as SIGPIPE counts, and not a word."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False, env=environment()
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_head_gets_its_line() -> None:
    said = shell('"$0" doctor --json | head -n 1')
    assert said == (0, "{\n", "")


@pytest.mark.parametrize("how", ["", "--json"])
def test_closed_standard_output(how: str) -> None:
    said = shell(f'"$0" show $$ {how} >&-')
    assert said.code == 1
    assert_one_line(said, "standard output is closed")


@pytest.mark.parametrize("how", ["", "--json"])
def test_full_disk(how: str) -> None:
    said = shell(f'"$0" show $$ {how} >/dev/full')
    assert said.code == 1
    assert_one_line(said, "No space left on device")


def test_an_error_and_a_full_disk() -> None:
    """The line on standard error is about what was asked for."""
    said = shell('"$0" show 2147483647 --json >/dev/full')
    assert said.code == 1
    assert_one_line(said, "No such process")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_no_place_for_the_complaint(redirection: str) -> None:
    """The exit code says it still."""
    assert shell(f'"$0" show 2147483647 {redirection}').code == 1
    assert shell(f'"$0" show 0 {redirection}').code == 2


def test_descriptors_closed_at_the_start() -> None:
    """Whatever is opened under their numbers meanwhile, the answer comes."""
    said = shell('"$0" show $$ --json <&- 2>&-')
    assert said.code == 0
    assert json.loads(said.out)["liveness"] == "alive"


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_an_ascii_locale(tmp_path: Path, env: dict[str, str]) -> None:
    folder = tmp_path / "käse"
    said = inspect("show", str(folder), env=env)
    assert said.code == 1
    assert said.out == ""
    assert said.err.isascii() or "käse" in said.err
    assert "No such file" in said.err
    with Blocked(name="käse".encode()) as blocked:
        said = inspect("show", str(blocked.pid), env=env)
        document = json.loads(inspect("show", str(blocked.pid), "--json", env=env).out)
    assert said.code == 0
    assert any(f"name         {name}\n" in said.out for name in ("käse", r"k\xe4se", r"k\xc3\xa4se"))
    assert document["process"]["name"] in ("käse", r"k\xc3\xa4se")


@pytest.mark.parametrize("command", [["wait"], ["wait", "--json"]])
def test_an_interrupt_while_waiting(command: list[str]) -> None:
    """130, and nothing but that; the interrupt comes once the program sleeps in poll."""
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        waiting = subprocess.Popen([PROGRAM, *command, str(sleeper.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            await_waiting(waiting.pid)
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=TIMEOUT_S)
        finally:
            waiting.kill()
            sleeper.kill()
    assert (waiting.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("OSError(24, 'Too many open files')", "Too many open files"),
        ("MemoryError", "MemoryError"),
        ("ImportError('lib.so: cannot map it', name='lib')", "lib.so: cannot map it"),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path: Path, fault: str, why: str) -> None:
    """Where descriptors or memory run out before there is a frame: one line, 1."""
    (tmp_path / "click.py").write_text(f"raise {fault}\n")
    said = inspect("exit", "1", env={"PYTHONPATH": str(tmp_path)})
    assert said.code == 1
    assert_one_line(said, "cannot start: ", why)


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """Without the extra the program says which package is missing: one line, 5."""
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('No module named click', name='click')\n")
    done = subprocess.run(
        [sys.executable, "-m", "spurproc.inspect", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "spurproc-inspect: the package 'click' is missing: pip install 'spurproc[inspect]'\n"


def test_json_loads_no_rich() -> None:
    """What a script calls often pays for no tables."""
    program = """
import sys
from spurproc.inspect.main import main
main(["show", "1", "--json"])
print("rich" in sys.modules, "psutil" in sys.modules, "pyroute2" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["False"] * 3


def test_a_terminal_has_colours_and_a_pipe_has_none() -> None:
    on_terminal, piped = inspect_on_terminal("doctor"), inspect("doctor")
    assert "\x1b[" in on_terminal.out
    assert "\x1b" not in piped.out
    assert "\x1b[3" not in inspect_on_terminal("doctor", env={"NO_COLOR": "1"}).out
    assert "\x1b" not in inspect_on_terminal("doctor", env={"TERM": "dumb"}).out
    assert max(map(len, plain(on_terminal.out).splitlines())) <= COLUMNS
    assert not any(line.endswith(" ") for line in piped.out.splitlines())
