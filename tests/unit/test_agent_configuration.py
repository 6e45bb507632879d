"""Settings from flags, environment, file and defaults: which one counts, and that every mistake is named with its place."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_type_hints

import pytest

from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.configuration.fields import FIELD_OF_NAME, FIELDS, default_config_file
from spurproc.agent.configuration.loading import CONFIG_ENVIRONMENT, LoadedConfiguration, Source, load_configuration
from spurproc.errors import ConfigurationInvalid

HOME = {"HOME": "/nonexistent"}
USER = 12345

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A configuration file that says this; its path."""

    def written(text: str) -> str:
        path = tmp_path / "spurd.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def load(flags: Mapping[str, str], file: str | None = None, **environment: str) -> LoadedConfiguration:
    return load_configuration(flags, file=file, environment=HOME | environment, uid=os.geteuid() if file else USER)


def problems_of(flags: Mapping[str, str], file: str | None = None, **environment: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(flags, file, **environment)
    return caught.value.problems


# The table


def test_the_table_and_the_values_are_one() -> None:
    """Each row has its attribute, and each attribute its row; nothing is there twice."""
    names = [field.name for field in FIELDS]
    assert names == [field.name for field in dataclasses.fields(Configuration)]
    assert len(set(names)) == len(names) == len(FIELD_OF_NAME)


def test_every_default_has_the_type_that_the_values_promise() -> None:
    """As far as a type can be asked."""
    loaded = load({}).configuration
    hints = get_type_hints(Configuration)
    plain = {str, int, float}
    assert {name for name, hint in hints.items() if hint in plain and type(getattr(loaded, name)) is not hint} == set()


def test_units_stand_in_the_names_and_each_has_a_help() -> None:
    """A number of seconds ends in _s, of bytes in _bytes; the help is a sentence."""
    for field in FIELDS:
        meaning = field.kind.meaning
        assert field.name.endswith("_s") == meaning.startswith("a number of seconds"), field.name
        assert field.help.endswith((".", "`"))
        assert isinstance(field.default, str) or field.default_words
        assert (field.flag, field.variable) == (f"--{field.name.replace('_', '-')}", f"SPURD_{field.name.upper()}")


# Which one counts


def test_defaults_work_without_a_file() -> None:
    """Nothing has to be configured."""
    loaded = load({})
    assert loaded.file is None
    assert loaded.warnings == ()
    assert {origin.source for origin in loaded.origins.values()} == {Source.DEFAULT}
    assert loaded.configuration.state_dir == "/nonexistent/.local/state/spurd"
    assert loaded.configuration.node_name == os.uname().nodename


@pytest.mark.parametrize(
    ("uid", "environment", "state_dir", "file"),
    [
        (0, {}, "/var/lib/spurd", "/etc/spurd.toml"),
        (0, {"XDG_STATE_HOME": "/x", "HOME": "/root"}, "/var/lib/spurd", "/etc/spurd.toml"),
        (USER, {"HOME": "/home/a"}, "/home/a/.local/state/spurd", "/home/a/.config/spurd.toml"),
        (USER, {"HOME": "/a", "XDG_STATE_HOME": "/x", "XDG_CONFIG_HOME": "/y"}, "/x/spurd", "/y/spurd.toml"),
        (USER, {"HOME": "/a", "XDG_STATE_HOME": "x"}, "/a/.local/state/spurd", "/a/.config/spurd.toml"),
    ],
)
def test_where_things_stand_by_default(uid: int, environment: dict[str, str], state_dir: str, file: str) -> None:
    """Of root in the system's folders, of a user in the user's; a relative XDG path is ignored, as that specification has it."""
    assert FIELD_OF_NAME["state_dir"].default_text(environment, uid) == state_dir
    assert default_config_file(environment, uid) == file


def test_a_flag_goes_before_a_variable_before_the_file_before_the_default(write: Write) -> None:
    """And the place is told of each."""
    file = write("log_level = 'error'\nnode_name = 'of-file'\n\nlaunch_concurrency = 3\n")
    loaded = load({"log_level": "debug"}, file, SPURD_LOG_LEVEL="warning", SPURD_NODE_NAME="of-variable")
    values = loaded.configuration
    assert (values.log_level, values.node_name, values.launch_concurrency) == ("debug", "of-variable", 3)
    places = {name: str(loaded.origins[name]) for name in ("log_level", "node_name", "launch_concurrency", "log_format")}
    assert places == {
        "log_level": "flag --log-level",
        "node_name": "variable SPURD_NODE_NAME",
        "launch_concurrency": f"{file}, line 4",
        "log_format": "default",
    }
    assert loaded.file == file


@pytest.mark.parametrize("present", [set(some) for count in range(4) for some in itertools.combinations(Source, count)])
def test_the_strongest_source_counts_wherever_there_are_several(write: Write, present: set[Source]) -> None:
    """All mixtures of them."""
    flags = {"launch_concurrency": "11"} if Source.FLAG in present else {}
    environment = {"SPURD_LAUNCH_CONCURRENCY": "12"} if Source.ENVIRONMENT in present else {}
    loaded = load(flags, write("launch_concurrency = 13\n" if Source.FILE in present else ""), **environment)
    expected = next(source for source in Source if source in present | {Source.DEFAULT})
    assert loaded.origins["launch_concurrency"].source is expected
    counts = {Source.FLAG: 11, Source.ENVIRONMENT: 12, Source.FILE: 13, Source.DEFAULT: 4}
    assert loaded.configuration.launch_concurrency == counts[expected]


def test_an_empty_variable_is_a_value(write: Write) -> None:
    """So that it can undo what the file says."""
    file = write("prolog_argv = ['/bin/true']\n")
    assert load({}, file).configuration.prolog_argv == ("/bin/true",)
    assert load({}, file, SPURD_PROLOG_ARGV="").configuration.prolog_argv == ()


def test_what_is_written_is_read_as_the_same(write: Write) -> None:
    """All settings, through a file."""
    flags = {"cpus": "0-3", "gpus": "", "generic": "fpga=2", "prolog_argv": "/bin/sh -c 'a \"b\"'", "time_limit_s": "1.5"}
    configuration = load(flags).configuration
    again = load({}, write(configuration.to_toml()))
    assert again.configuration == configuration
    assert {origin.source for origin in again.origins.values()} == {Source.FILE}


def test_the_variable_names_the_file_and_the_flag_another(write: Write, tmp_path: Path) -> None:
    """SPURD_CONFIG, unless a file is given."""
    file = write("log_level = 'error'\n")
    uid = os.geteuid()
    assert load_configuration({}, environment=HOME | {CONFIG_ENVIRONMENT: file}, uid=uid).configuration.log_level == "error"
    other = tmp_path / "other.toml"
    other.write_text("log_level = 'debug'\n")
    loaded = load_configuration({}, file=str(other), environment=HOME | {CONFIG_ENVIRONMENT: file}, uid=uid)
    assert loaded.configuration.log_level == "debug"


# Mistakes


def test_every_mistake_is_named_with_its_place(write: Write) -> None:
    """All at once, so that nobody mends them one by one."""
    file = write("# one\nheartbeat_interval = 5\nlog_level = 'loud'\n\n[generic]\nfpga = 1\nport = -1\n")
    found = problems_of({"cpus": "x"}, file, SPURD_LAUNCH_CONCURRENCY="0")
    assert sorted(found) == sorted(
        [
            f"cannot use heartbeat_interval ({file}, line 2): no setting has this name; the nearest is heartbeat_interval_s",
            f"cannot use log_level ({file}, line 3): 'loud' is not one of debug, info, warning, error",
            f"cannot use generic ({file}, line 7): port: -1 is not a whole number from 0 to 2147483647",
            "cannot use launch_concurrency (variable SPURD_LAUNCH_CONCURRENCY): 0 is not a whole number from 1 to 256",
            "cannot use cpus (flag --cpus): 'x' is not a list of CPUs such as 0-3,8",
        ]
    )


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a = 1\n\nlog_level = \n", 3, ", log_level: invalid value"),
        ("log_level = 'info'\nlog_level = 'info'\n", 2, ", log_level: cannot overwrite a value"),
        ("log_level = 'info'\nno sense\n", 2, ": expected '=' after a key"),
        ("gpus = [\n'a',\n", 3, ", gpus: invalid value"),
        ("log_level = 'info'\n\ntext = '''\n\nnode_name = 'x'\n", 6, ", text: expected "),
        ("log_level = 'info'\ncpus = " + "9" * 5000 + "\n", 2, ", cpus: a number has too many digits"),
    ],
    ids=["value", "twice", "words", "list", "text", "digits"],
)
def test_a_file_that_is_no_toml_is_named_with_the_line(write: Write, text: str, line: int, reason: str) -> None:
    """And with the key, where one stands there."""
    file = write(text)
    (problem,) = problems_of({}, file)
    assert problem.startswith(f"cannot read {file}, line {line}{reason}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"log_level = 'info'\nnode_name = '\xff'\n", "line 2 is not UTF-8"),
        (b"\xef\xbb\xbflog_level = 'info'\n", "line 1 begins with a byte order mark"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "its values are nested too deeply"),
        (b"a." * 5000 + b"b = 1\n", "its values are nested too deeply"),
    ],
    ids=["bytes", "mark", "lists", "tables"],
)
def test_a_file_that_is_no_text_of_ours_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(content)
    (problem,) = problems_of({}, str(file))
    assert problem.startswith(f"cannot read {file}: {reason}")


def test_a_number_of_thousands_of_digits_is_a_wrong_value(write: Write) -> None:
    """Python writes none."""
    file = write("heartbeat_interval_s = 0x" + "f" * 5000 + "\n")
    (problem,) = problems_of({}, file)
    assert problem.startswith(f"cannot use heartbeat_interval_s ({file}, line 1): a number of thousands of digits is not ")


@pytest.mark.parametrize("flags", [{"state_dir": "s"}, {"socket_path": "s"}])
def test_a_relative_path_in_a_folder_that_is_gone_is_named(
    flags: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    (problem,) = problems_of(flags)
    assert problem.endswith("'s' is relative, and the current folder cannot be told: No such file or directory")
    assert problems_of({}, "s") == ("cannot read s: No such file or directory",)


def test_a_user_whom_nobody_knows_has_the_root_for_home() -> None:
    """A container with any user: no entry, and no HOME."""
    loaded = load_configuration({}, environment={}, uid=4000123)
    assert loaded.configuration.state_dir == "/.local/state/spurd"


def test_an_empty_name_of_a_file_names_none() -> None:
    """As of a variable that is not set: the default file is not what was meant."""
    (problem,) = problems_of({}, "")
    assert problem == "cannot read '': --config names no file"


@pytest.mark.parametrize("name", ["state_dir", "socket_path", "output_pattern", "gpus"])
def test_a_value_that_is_not_utf_8_is_named(name: str) -> None:
    """Neither a record nor a message could hold it."""
    (problem,) = problems_of({name: "/a\udcff"})
    assert problem == rf"cannot use {name} (flag --{name.replace('_', '-')}): '/a\udcff' is not UTF-8"
    (problem,) = problems_of({}, **{f"SPURD_{name.upper()}": "/a\udcff"})
    assert problem.endswith("is not UTF-8")


def test_a_hook_that_is_no_program_is_warned_about(tmp_path: Path) -> None:
    """Not refused: it may be put there later."""
    (tmp_path / "hook").touch()
    (warning,) = load({"prolog_argv": f"{tmp_path}/hook", "epilog_argv": "/bin/true"}).warnings
    assert warning == f"prolog_argv (flag --prolog-argv): '{tmp_path}/hook' is no program that can be run, so far"


def test_a_wrong_value_that_does_not_count_is_not_judged(write: Write) -> None:
    """A flag helps past a bad file."""
    file = write("log_level = 'loud'\n")
    assert load({"log_level": "info"}, file).configuration.log_level == "info"


def test_two_values_that_do_not_go_together(write: Write) -> None:
    """Both are named, wherever they come from."""
    file = write("\nheartbeat_interval_s = 90\n")
    (problem,) = problems_of({}, file)
    assert problem == (
        f"cannot use heartbeat_timeout_s (default): 60 s is not longer than heartbeat_interval_s ({file}, line 2), 90 s"
    )


def test_a_short_heartbeat_timeout_is_warned_about() -> None:
    """Not refused: whoever says so may know better. From 30 s on nobody is told anything."""
    (warning,) = load({"heartbeat_timeout_s": "29.9"}).warnings
    assert warning.startswith("heartbeat_timeout_s (flag --heartbeat-timeout-s) is 29.9 s: below 30 s")
    assert load({"heartbeat_timeout_s": "30"}).warnings == ()


def test_a_variable_that_is_no_setting_is_warned_about() -> None:
    """A job may have been given one that begins alike: no error, but the nearest is told."""
    (warning,) = load({}, SPURD_HEARTBEAT_INTERVALS="3").warnings
    assert warning == "the variable SPURD_HEARTBEAT_INTERVALS is no setting; the nearest is SPURD_HEARTBEAT_INTERVAL_S"
    assert load({}, SPURD_CONFIG_="3").warnings != ()


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    """Else somebody's settings would silently not count."""
    missing = tmp_path / "missing.toml"
    assert problems_of({}, str(missing)) == (f"cannot read {missing}: No such file or directory",)
    assert problems_of({}, SPURD_CONFIG=str(missing)) == (f"cannot read {missing}: No such file or directory",)


@pytest.mark.parametrize("kind", ["fifo", "folder", "mode", "binary"])
def test_what_is_no_file_of_ours_is_refused_and_blocks_nobody(tmp_path: Path, kind: str) -> None:
    """Whoever else may write it could choose what the agent runs."""
    path = tmp_path / "spurd.toml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff" if kind == "binary" else b"")
        path.chmod(0o646 if kind == "mode" else 0o644)
    (problem,) = problems_of({}, str(path))
    expected = {
        "fifo": "not a regular file",
        "folder": "not a regular file",
        "mode": "others may write it",
        "binary": "line 1 is not",
    }
    assert expected[kind] in problem


@pytest.mark.needs_root
def test_roots_settings_are_roots(write: Write) -> None:
    """Neither another user's file nor one that a group may write decides what root runs; a user's own group is the user's."""
    file = write("")
    Path(file).chmod(0o664)
    assert "others may write it" in problems_of({}, file)[0]
    load_configuration({}, file=file, environment=HOME, uid=USER)
    Path(file).chmod(0o644)
    load({}, file)
    os.chown(file, USER, USER)
    assert f"belongs to user {USER}" in problems_of({}, file)[0]


def test_a_relative_path_is_taken_from_where_it_is_typed(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not in a file, for which nobody knows where that would be."""
    monkeypatch.chdir(tmp_path)
    assert load({"state_dir": "state"}).configuration.state_dir == f"{tmp_path}/state"
    assert load({}, SPURD_STATE_DIR="../state").configuration.state_dir == f"{tmp_path.parent}/state"
    assert "is not an absolute path" in problems_of({}, write("state_dir = 'state'\n"))[0]
