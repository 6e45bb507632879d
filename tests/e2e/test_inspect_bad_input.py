"""Bad input of every kind, for every command of spurproc-inspect: one line that names it, and no exit code but 1 or 2."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from spurproc.inspect.main import COMMANDS
from tests.inspect_program import assert_one_line, inspect, inspect_here
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


_NO_FOLDERS = [
    ("missing", "No such file or directory"),
    ("file", "Not a directory"),
    ("fifo", "Not a directory"),
    ("socket", "Not a directory"),
    ("fifo/below", "Not a directory"),
    ("link", "symbolic link"),
    ("open", "its mode is 0777"),
    ("n" * 300, "File name too long"),
]
"""What is no private folder, whatever a command looks for in it."""


@pytest.mark.parametrize("command", OF_TARGET)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        *_NO_FOLDERS,
        ("empty", "no run was launched here"),
        ("garbage", "not JSON"),
        ("piped", "run.json"),
        ("newer", "its version is 99"),
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
        *_NO_FOLDERS,
        ("empty", "runtime"),
        ("garbage", "runtime"),
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
