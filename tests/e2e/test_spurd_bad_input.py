"""Bad input of every kind, for every command of spurd: one line that names it, no exit code but those that are documented."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spurproc.agent.cli.main import COMMANDS, main
from tests.inspect_program import Said
from tests.spurd_command import PROGRAM, Spurd, assert_one_line

OF_JOB = ["cancel", "logs", "requeue", "resume", "show", "suspend", "wait"]
SUBMIT = ["submit", "--", "true"]
ASKING = sorted(COMMANDS.keys() - {"serve"})
"""All that ask an agent; the one that is left is one."""


@pytest.fixture
def nowhere(tmp_path: Path) -> Spurd:
    """With no agent: what is wrong with a command line is said before one is looked for."""
    return Spurd(tmp_path / "nowhere")


@pytest.mark.parametrize("command", OF_JOB)
@pytest.mark.parametrize("job", ["", "0", "-1", "x", "7.0", "07", "1.1.1", "9" * 30, "\u0667", "\x1b[31m"])
def test_what_is_no_job_is_named(nowhere: Spurd, command: str, job: str) -> None:
    said = nowhere.here(command, "--", job)
    assert said.code == 2
    assert_one_line(said, "is not JOB or JOB.ATTEMPT")


def test_a_job_that_is_not_there_is_named(spurd: Spurd) -> None:
    for command in OF_JOB:
        said = spurd.here(command, "77")
        assert said.code == (125 if command == "wait" else 1)
        assert_one_line(said, "cannot find job 77: there is none")


@pytest.mark.parametrize(
    ("option", "text", "names"),
    [
        ("--cpus", "0", "'--cpus'"),
        ("--cpus", "x", "'--cpus': 'x' is not a whole number from 1 to 999999999"),
        ("--cpus", "1_0", "'1_0' is not a whole number"),
        ("--cpus", "\u0663", "is not a whole number"),
        ("--pids", "9" * 30, "'--pids'"),
        ("--memory", "lots", "'lots' is not a size"),
        ("--gpus", "many", "'many' is not a number of GPUs"),
        ("--gpus", "0:nvidia", "gpu_kind"),
        ("--generic", "=1", "'=1' is not NAME"),
        ("--generic", "a\x1b[m", "generic"),
        ("--time-limit", "soon", "'soon' is not a span"),
        ("--kill-plan", "TERM:", "is not signals with seconds"),
        ("--bogus", "x", "No such option"),
    ],
)
def test_an_option_that_is_none_is_named(nowhere: Spurd, option: str, text: str, names: str) -> None:
    said = nowhere.here("submit", option, text, "--", "true")
    assert said.code == 2, said
    assert_one_line(said, names)


def test_an_option_twice_or_without_its_value_is_named(nowhere: Spurd) -> None:
    assert_one_line(nowhere.here("submit", "--generic", "a", "--generic", "a", "--", "true"), "'a' is given twice")
    assert_one_line(nowhere.here("submit", "--workdir"), "requires an argument")
    assert_one_line(nowhere.here("submit", "--workdir", "/"), "Missing argument")
    assert_one_line(nowhere.here("alloc", "--for", "never"), "'never' is not a span")
    assert_one_line(nowhere.here("jobs", "--limit", "0"), "'--limit'")
    assert_one_line(nowhere.here("jobs", "--user", "nobody-such"), "there is no user 'nobody-such'")


_OF_A_JOB = [
    ("--env", "A", "'A' is no NAME=value"),
    ("--export", "NO_SUCH_NAME", "'NO_SUCH_NAME' is not set"),
    ("--name", "a/b", "name: 'a/b' is no name"),
    ("--name", "\x1b[31m", "is no name"),
    ("--output", "%q", "'%q' in '%q' is none of"),
    ("--error", "", "--error: '' is no path"),
    ("--input", "%", "--input: '%' in '%' is none of"),
    ("--pids", "999999999999", "'--pids'"),
    ("--key", "\udcff", r"'\xff' is not UTF-8"),
    ("--key", "", "key: ''"),
    ("--key", "k" * 300, "key:"),
    ("--user", "nobody-such", "there is no user 'nobody-such'"),
    ("--user", "99999999999", "user: 99999999999 is no id"),
]


def test_what_is_no_job_of_ours_is_named(spurd: Spurd) -> None:
    for option, text, names in _OF_A_JOB:
        said = spurd.here("submit", option, text, "--", "true")
        assert said.code == 2, said
        assert_one_line(said, names)
    assert spurd.json("jobs", "-a")["jobs"] == []


_SCRIPTS = [
    (b"", "it is empty"),
    (b"echo hello\n", "does not name an interpreter"),
    (b"\x7fELF\x00", "it holds a NUL"),
    (b"\xef\xbb\xbf#!/bin/sh\n", "byte order mark"),
    (b"#!sh\n", "no absolute path"),
    (b"#!/bin/sh\n" + b"#" * (4 << 20), "4194304 bytes is the longest that the agent takes (max_job_script_bytes)"),
]


def test_a_script_that_cannot_run_is_named(spurd: Spurd, tmp_path: Path) -> None:
    for content, why in _SCRIPTS:
        (tmp_path / "s").write_bytes(content)
        said = spurd.here("submit", tmp_path / "s")
        assert said.code == 2
        assert_one_line(said, f"cannot submit the script '{tmp_path}/s': ", why)


def test_a_word_that_is_not_utf_8_is_named(spurd: Spurd) -> None:
    spurd.here(*SUBMIT)
    for command in (["cancel", "1"], ["requeue", "1"], ["drain"]):
        said = spurd.here(*command, "--why", "a\udcff")
        assert said.code == 2
        assert_one_line(said, r"'a\xff' is not UTF-8")


def test_a_script_that_cannot_be_read_is_named(spurd: Spurd, tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    for name in ("none", ".", "n" * 300, "s/below"):
        said = spurd.here("submit", f"{tmp_path}/{name}")
        assert said.code == 2
        assert_one_line(said, "cannot read the script")


@pytest.mark.parametrize("command", ASKING)
def test_no_agent_is_said_with_what_to_do(nowhere: Spurd, command: str) -> None:
    arguments = SUBMIT if command == "submit" else [command, "1"] if command in OF_JOB else [command]
    said = nowhere.here(*arguments)
    assert said.code == (125 if command == "wait" else 3)
    assert_one_line(
        said, f"cannot reach the agent at '{nowhere.folder}/control.sock': there is no socket; start it with `spurd serve`"
    )


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_too_many_arguments_are_named(nowhere: Spurd, command: str) -> None:
    if command == "submit":
        said = nowhere.here("submit")
    else:
        said = nowhere.here(command, *(["1"] if command in OF_JOB else []), "odd\x1b[31m")
    assert said.code == 2
    assert_one_line(said)


@pytest.mark.parametrize("command", ["reboot", "", "--bogus"])
def test_an_unknown_command_is_named(command: str) -> None:
    assert main([command]) == 2


def test_other_things_in_the_place_of_the_socket(nowhere: Spurd, tmp_path: Path) -> None:
    for make in (Path.touch, Path.mkdir, os.mkfifo):
        path = tmp_path / make.__name__
        make(path)
        said = nowhere.here("jobs", "--socket", path)
        assert said.code == 3
        assert_one_line(said, f"cannot reach the agent at '{path}': what stands there is no socket")


def test_a_configuration_that_cannot_be_used(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("state_dyr = 1\n")
    config.chmod(0o600)
    code = main(["jobs", "--config", str(config)])
    assert code == 2
    assert_one_line(Said(code, *capfd.readouterr()), "state_dyr", "line 1")


def test_a_reader_that_goes_away_and_a_full_disk(spurd: Spurd) -> None:
    spurd.here(*SUBMIT)
    read, write = os.pipe()
    os.close(read)
    try:
        assert ended_with(spurd, write) == 141
    finally:
        os.close(write)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert ended_with(spurd, full) == 1
    finally:
        os.close(full)


def ended_with(spurd: Spurd, stdout: int) -> int:
    return subprocess.run([PROGRAM, "jobs"], stdout=stdout, stderr=subprocess.DEVNULL, check=False, env=spurd.env).returncode
