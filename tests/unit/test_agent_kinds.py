"""Each kind of setting: what it reads, what it refuses, and that what it writes is read as the same again."""

from __future__ import annotations

import signal
import tomllib
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spurproc.agent.configuration.fields import FIELD_OF_NAME, FIELDS
from spurproc.agent.configuration.kinds import AbsolutePath, Choice, Kind, Optional, Seconds, Text, Whole
from spurproc.agent.configuration.list_kinds import Argv, Counts, CpuList, Kills, Words
from spurproc.core.tree.termination import KillPlan

# What TOML can hold: any character but surrogates. What a program can be given holds no NUL.
_ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_LINE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
_WORD = st.from_regex(r"[^\s,\x00]+", fullmatch=True).filter(lambda text: text.isprintable())
_NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", fullmatch=True)
_SECONDS = st.floats(0.5, 86_400.0)
_SIGNAL = st.sampled_from([signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
_PLAN = st.builds(
    lambda steps, last: KillPlan(steps=(*steps, last)),
    st.lists(st.tuples(_SIGNAL, st.floats(0, 3600.0)), max_size=4),
    st.tuples(_SIGNAL, st.none() | st.floats(0, 3600.0)),
)
_CPUS = st.sets(st.integers(0, 300), min_size=1).map(lambda cpus: tuple(sorted(cpus)))
VALUES: list[tuple[Kind[Any], st.SearchStrategy[Any]]] = [
    (Text(), _LINE),
    (AbsolutePath(), _WORD.map(lambda word: f"/{word.replace('/', '').strip('.')}x")),
    (Whole(low=1, high=1 << 62), st.integers(1, 1 << 62)),
    (Seconds(low=0.5), _SECONDS),
    (Choice(("a", "b")), st.sampled_from(["a", "b"])),
    (Argv(), st.just(()) | st.tuples(st.just("/bin/x"), _ANY, _ANY)),
    (Words(), st.lists(_WORD, unique=True).map(tuple)),
    (CpuList(), _CPUS),
    (Counts(), st.dictionaries(_NAME, st.integers(0, 1000)).map(MappingProxyType)),
    (Kills(), _PLAN),
    (Optional(CpuList(), "auto"), st.none() | _CPUS),
    (Optional(Seconds(low=0.5), "none"), st.none() | _SECONDS),
]


@given(st.data())
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[f"{kind.meaning[:20]}" for kind, _ in VALUES])
def test_what_is_written_is_read_as_the_same(kind: Kind[Any], values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """As text, and in a TOML document."""
    value = data.draw(values)
    assert kind.from_text(kind.to_text(value)) == value
    assert kind.from_toml(tomllib.loads(f"key = {kind.to_toml(value)}\n")["key"]) == value


@settings(max_examples=30)  # for each of two dozen settings
@given(_ANY)
@pytest.mark.parametrize("name", sorted(FIELD_OF_NAME))
def test_no_text_is_worse_than_a_wrong_value(name: str, text: str) -> None:
    """Whatever is typed is a value, which then is one for good, or a ValueError with a reason."""
    kind = FIELD_OF_NAME[name].kind
    try:
        value = kind.from_text(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - a reason, not only an error
    else:
        assert kind.from_text(kind.to_text(value)) == value


_TOML = st.recursive(
    st.booleans() | st.integers() | st.floats() | _ANY | st.dates(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_ANY, below, max_size=3),
)


@settings(max_examples=30)
@given(_TOML)
@pytest.mark.parametrize("name", sorted(FIELD_OF_NAME))
def test_no_value_of_a_file_is_worse_than_a_wrong_one(name: str, value: object) -> None:
    """The same for all that TOML has."""
    kind = FIELD_OF_NAME[name].kind
    try:
        read = kind.from_toml(value)
    except ValueError:
        return
    assert kind.from_text(kind.to_text(read)) == read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("heartbeat_interval_s", "nan"),
        ("heartbeat_interval_s", "inf"),
        ("heartbeat_interval_s", "-1"),
        ("heartbeat_interval_s", "10s"),
        ("heartbeat_interval_s", "1_0"),
        ("heartbeat_interval_s", " 10"),
        ("heartbeat_interval_s", "٣"),
        ("heartbeat_interval_s", "0"),
        ("max_job_script_bytes", "0"),
        ("max_job_script_bytes", "1e3"),
        ("max_job_script_bytes", "4MiB"),
        ("cpus", ""),
        ("cpus", "3-1"),
        ("cpus", "1,1"),
        ("cpus", "0-3,2"),
        ("cpus", "1-"),
        ("cpus", "99999999"),
        ("gpus", "a,,b"),
        ("gpus", "a,a"),
        ("generic", "fpga"),
        ("generic", "fpga=1,fpga=2"),
        ("generic", "=2"),
        ("generic", "fpga=-1"),
        ("prolog_argv", "true"),
        ("prolog_argv", "/bin/sh -c 'x"),
        ("kill_plan", ""),
        ("kill_plan", "SIGNOT"),
        ("kill_plan", "TERM,KILL"),
        ("kill_plan", "TERM:-1,KILL"),
        ("controller", "remote"),
        ("node_name", "a/b"),
        ("node_name", ""),
        ("output_pattern", "a\nb"),
        ("output_pattern", "%q"),
        ("output_pattern", "100%"),
        ("output_pattern", "x" * 4096),
        ("kill_plan", "TERM"),
        ("kill_plan", "KILL:5,TERM"),
        ("kill_plan", "TERM:3601,KILL"),
        ("state_dir", ""),
    ],
)
def test_what_means_nothing_is_refused(name: str, text: str) -> None:
    """With the value in the reason, or what is wrong with it."""
    with pytest.raises(ValueError, match=r".{10}"):
        FIELD_OF_NAME[name].kind.from_text(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heartbeat_interval_s", True),
        ("heartbeat_interval_s", "10"),
        ("heartbeat_interval_s", float("nan")),
        ("max_job_script_bytes", True),
        ("max_job_script_bytes", 10.0),
        ("state_dir", "relative"),
        ("state_dir", 3),
        ("cpus", [0, 1]),
        ("gpus", "a"),
        ("gpus", ["a b"]),
        ("gpus", [1]),
        ("generic", {"fpga": True}),
        ("generic", {"a b": 1}),
        ("generic", [1]),
        ("prolog_argv", "/bin/true"),
        ("prolog_argv", ["/bin/true", 1]),
        ("prolog_argv", ["/bin/true", "a\0b"]),
        ("kill_plan", ["SIGTERM:10"]),
    ],
)
def test_toml_of_another_type_is_refused(name: str, value: object) -> None:
    """Nothing is turned into something: "10" is no number, and true is no 1."""
    with pytest.raises(ValueError, match=r".{10}"):
        FIELD_OF_NAME[name].kind.from_toml(value)


def test_what_is_read() -> None:
    """One of each that has a form of its own."""
    read = {name: FIELD_OF_NAME[name].kind.from_text for name in FIELD_OF_NAME}
    assert read["cpus"]("8,0-3") == (0, 1, 2, 3, 8)
    assert read["cpus"]("auto") is None
    assert read["gpus"]("") == ()
    assert read["generic"]("fpga=2, port=0") == {"fpga": 2, "port": 0}
    assert read["prolog_argv"]("/bin/sh -c 'a b'") == ("/bin/sh", "-c", "a b")
    assert read["kill_plan"]("INT:0.5, SIGKILL") == KillPlan(steps=((signal.SIGINT, 0.5), (signal.SIGKILL, None)))
    assert read["time_limit_s"]("none") is None
    assert read["time_limit_s"]("90") == 90.0
    assert read["memory_bytes"](str((1 << 63) - 1)) == (1 << 63) - 1


def test_every_default_can_be_typed() -> None:
    """A default is a value like any other."""
    for field in FIELDS:
        for uid in (0, 1000):
            text = field.default_text({"HOME": "/home/someone"}, uid)
            assert field.kind.to_text(field.kind.from_text(text)) == text
