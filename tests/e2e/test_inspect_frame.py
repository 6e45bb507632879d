"""What all commands of spurproc-inspect have in common: one line for a mistake, no traceback, and an exit code that says it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spurproc.inspect.main import COMMANDS
from tests.inspect_program import (
    COLUMNS,
    ENVIRONMENT,
    PROGRAM,
    TIMEOUT_S,
    Said,
    assert_one_line,
    await_waiting,
    inspect,
    inspect_here,
    inspect_on_terminal,
    plain,
)
from tests.relatives import Blocked
from tests.steps import WAIT_S, Steps

OF_STATE = ["events", "fsck", "logs", "ls"]
OF_TARGET = sorted(COMMANDS.keys() - {"doctor", *OF_STATE})
MORE = {"signal": ["TERM"], "events": ["7.1.0"], "logs": ["7.1.0"]}


def arguments_of(command: str, what: str) -> list[str]:
    """With what it is asked about, a target or a state folder, and whatever it needs beside that."""
    return [command, "--", what, *MORE.get(command, [])]


def test_the_real_program_says_it_too(tmp_path: Path) -> None:
    """The tests below that call it in this process see what a shell sees."""
    said = inspect("show", "007")
    assert said.code == 2
    assert_one_line(said, "cannot read TARGET '007': PID has a leading zero")
    assert inspect("show", "missing", cwd=tmp_path).code == 1


@pytest.mark.parametrize("command", OF_TARGET)
@pytest.mark.parametrize("target", ["0", "-1", "+1", "1:x", "1:0", "99999999999", "\u0661", "", " 1", "007", "1:2:3"])
def test_a_number_that_is_none_is_named(capfd: pytest.CaptureFixture[str], command: str, target: str) -> None:
    said = inspect_here(capfd, *arguments_of(command, target))
    assert said.code == 2
    assert_one_line(said, "cannot read TARGET", f"'{target}'")


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder of things that are no recorded run."""
    (tmp_path / "file").write_text("{}")
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "empty").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "garbage").mkdir(mode=0o700)
    (tmp_path / "garbage" / "run.json").write_bytes(b"\x1b[31m\xff{")
    (tmp_path / "piped").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "piped" / "run.json", 0o600)
    (tmp_path / "newer").mkdir(mode=0o700)
    (tmp_path / "newer" / "run.json").write_text('{"version": 99}')
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
    return tmp_path


@pytest.mark.parametrize("command", OF_TARGET)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "No such file or directory"),
        ("file", "Not a directory"),
        ("fifo", "Not a directory"),
        ("socket", "Not a directory"),
        ("fifo/below", "Not a directory"),
        ("empty", "no run was launched here"),
        ("link", "symbolic link"),
        ("open", "its mode is 0777"),
        ("garbage", "not JSON"),
        ("piped", "run.json"),
        ("newer", "its version is 99"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_folder_that_is_no_run_is_named(
    capfd: pytest.CaptureFixture[str], shelf: Path, command: str, name: str, why: str
) -> None:
    said = inspect_here(capfd, *arguments_of(command, f"{shelf}/{name}"))
    assert said.code == 1
    assert_one_line(said, why, name[:100])


@pytest.mark.parametrize("command", OF_STATE)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "No such file or directory"),
        ("file", "Not a directory"),
        ("fifo", "Not a directory"),
        ("socket", "Not a directory"),
        ("fifo/below", "Not a directory"),
        ("empty", "runtime"),
        ("link", "symbolic link"),
        ("open", "its mode is 0777"),
        ("garbage", "runtime"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_folder_that_holds_no_steps_is_named(
    capfd: pytest.CaptureFixture[str], shelf: Path, command: str, name: str, why: str
) -> None:
    said = inspect_here(capfd, *arguments_of(command, f"{shelf}/{name}"))
    assert said.code == 1
    assert_one_line(said, why, name[:100])


@pytest.mark.parametrize("command", OF_TARGET)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("runtime/7.1.0", "it was removed, or never launched"),
        ("runtime/1.1.0", "its version is 99"),
        ("runtime/2.1.0", "JSON is malformed"),
        ("runtime/3.1.0", "launch.json"),
        ("runtime/4.1.0", "symbolic link"),
        ("none/runtime/7.1.0", "No such file or directory"),
        ("open/runtime/7.1.0", "its mode is 0777"),
    ],
)
def test_a_step_that_is_none_is_named(capfd: pytest.CaptureFixture[str], shelf: Path, command: str, name: str, why: str) -> None:
    for number, content in enumerate(('{"v": 99}', "\x1b[31m{", None), start=1):
        folder = shelf / "runtime" / f"{number}.1.0"
        folder.mkdir(mode=0o700, parents=True)
        if content is not None:
            (folder / "launch.json").write_text(content)
            (folder / "launch.json").chmod(0o600)
    (shelf / "runtime").chmod(0o700)
    (shelf / "runtime" / "4.1.0").symlink_to("1.1.0")
    (shelf / "open" / "runtime").mkdir(mode=0o700)
    said = inspect_here(capfd, *arguments_of(command, f"{shelf}/{name}"))
    assert said.code == 1
    assert_one_line(said, why)


@pytest.mark.parametrize("command", OF_STATE)
def test_no_name_is_no_folder(
    capfd: pytest.CaptureFixture[str], steps: Steps, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Nor is it the current folder, even where that is one of steps."""
    steps.launch(["true"]).wait(WAIT_S)
    monkeypatch.chdir(steps.path)
    said = inspect_here(capfd, *arguments_of(command, ""))
    assert said.code == 2
    assert_one_line(said, "cannot read STATE_DIR ''")


@pytest.mark.parametrize("command", ["events", "logs"])
@pytest.mark.parametrize(
    "step", ["", "7", "7.1", "07.1.0", "7.1.x", "7.1.0.0", "-7.1.0", "\u0667.1.0", "a\x1b]0;t\x07\n", "7.1.0/.."]
)
def test_an_id_that_is_none_is_named(capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str, step: str) -> None:
    said = inspect_here(capfd, command, "--", str(tmp_path), step)
    assert said.code == 2
    assert_one_line(said, "cannot read the step id")


@pytest.mark.needs_root
def test_a_folder_of_another_user_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", 1234, 1234)
    said = inspect("show", f"{tmp_path}/run")
    assert said.code == 1
    assert_one_line(said, "cannot trust the folder", "/run")


@pytest.mark.parametrize("command", OF_TARGET + OF_STATE)
def test_a_hostile_name_is_shown_in_one_harmless_line(capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    name = b"a\x1b]0;title\x07\n\xff\xe2\x80\xae"
    said = inspect_here(capfd, *arguments_of(command, os.fsdecode(os.fsencode(tmp_path) + b"/" + name)))
    assert said.code == 1
    assert_one_line(said, r"a\x1b]0;title\x07\n", r"\u202e")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "Missing command"),
        (["nothing"], "'nothing'"),
        (["no\x1bthing\n"], r"no\x1bthing"),
        (["--bogus"], "--bogus"),
        (["show"], "TARGET"),
        (["show", "1", "2"], "2"),
        (["show", "--members", "-1", "1"], "--members"),
        (["show", "--members", "x", "1"], "--members"),
        (["wait", "1", "--timeout"], "--timeout"),
        (["wait", "1", "--timeout", "nan"], "'nan'"),
        (["wait", "1", "--timeout", "-1"], "'-1'"),
        (["wait", "1", "--timeout", "1s"], "'1s'"),
        (["wait", "1", "--timeout", "1_0"], "'1_0'"),
        (["wait", "1", "--timeout", "\u0665"], "is not a number of seconds"),  # ARABIC-INDIC DIGIT FIVE
        (["signal", "1"], "SIGNAL"),
        (["signal", "1", "NOPE"], "'NOPE'"),
        (["signal", "1", "65"], "'65'"),
        (["signal", "1", "SIGSIGKILL"], "'SIGSIGKILL'"),
        (["signal", "1", ""], "''"),
        (["signal", "1", "\u0669"], "is not a signal"),
        (["doctor", "1"], "1"),
    ],
)
def test_a_command_line_that_means_nothing_is_named(capfd: pytest.CaptureFixture[str], arguments: list[str], part: str) -> None:
    said = inspect_here(capfd, *arguments)
    assert said.code == 2
    assert_one_line(said, part)


@pytest.mark.parametrize("command", OF_TARGET)
def test_a_number_that_nobody_has(capfd: pytest.CaptureFixture[str], command: str) -> None:
    """One that is out of the range of pid_max: nobody can have it."""
    said = inspect_here(capfd, *arguments_of(command, "2147483647"))
    assert said.code == 1
    assert_one_line(said, "process 2147483647", "No such process")


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
        env=ENVIRONMENT,
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
            [PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False, env=ENVIRONMENT
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
        await_waiting(waiting.pid)
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=TIMEOUT_S)
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
