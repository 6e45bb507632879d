"""What may be submitted: what is valid comes back as it was, and what is not is refused with the field that is at fault."""

from __future__ import annotations

import resource
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc import KillPlan
from spurproc.agent.jobs.job_spec import STRINGS_LAST, JobSpec, RequeuePolicy
from spurproc.agent.jobs.script import SCRIPT_LIMIT_BYTES, interpreter_of, script_warnings
from spurproc.agent.resources.request import ResourceRequest
from spurproc.errors import InvalidArgument, RecordInvalid
from spurproc.proto.codec import decode, encode
from spurproc.proto.raw_text import RawBytes, raw_text
from tests.agent_values import job_spec

NO_NUL = st.binary(max_size=40).map(lambda content: content.replace(b"\0", b""))
RAW = NO_NUL.map(raw_text)
ENTRIES = NO_NUL.map(lambda content: raw_text(b"A" + content.replace(b"=", b"") + b"=" + content))
SPECS = st.builds(
    job_spec,
    script=st.none() | NO_NUL.map(lambda rest: b"#!/bin/sh\n" + rest),
    argv=st.lists(RAW, max_size=3).map(lambda rest: (raw_text(b"/bin/true"), *rest)),
    env=st.lists(ENTRIES, max_size=4).map(tuple),
    groups=st.lists(st.integers(0, 2**32 - 2), max_size=3).map(tuple),
    work_dir=st.sampled_from([None, "", "/tmp", RawBytes(b"/\xff")]),
    stdout=st.sampled_from(["%x-%j.%a.%s", "/%%/%u%N", RawBytes(b"\xff%j")]),
    limits=st.dictionaries(st.integers(0, 15), st.tuples(st.integers(0, 9), st.integers(9, 99)), max_size=2),
    time_limit_s=st.none() | st.floats(0.1, 1e9),
    resources=st.builds(ResourceRequest, cpus=st.integers(1, 9), memory_bytes=st.integers(0, 2**40)),
    requeue=st.sampled_from(RequeuePolicy),
)


@given(SPECS)
def test_what_is_valid_comes_back_as_it_was(spec: JobSpec) -> None:
    assert decode(encode(spec), JobSpec, "spec") == spec


WRONG: list[tuple[str, Any]] = [
    ("name", ""),
    ("name", "a/b"),
    ("name", "a\nb"),
    ("name", " a"),
    ("name", "é" * 65),
    ("user", "/"),
    ("uid", -1),
    ("uid", 2**32 - 1),
    ("gid", True),
    ("groups", (2**32 - 1,)),
    ("groups", (0,) * 65537),
    ("script", b""),
    ("argv", ("",)),
    ("argv", ("/bin/true", "a\0")),
    ("argv", ("a" * (128 << 10),)),
    ("argv", ()),
    ("env", ("A",)),
    ("env", ("=b",)),
    ("env", ("A=\0",)),
    ("env", ("A=\ud800",)),
    ("env", (f"A={'a' * 100_000}",) * 60),
    ("env", ("A=" + "a" * 30,) * (STRINGS_LAST - 1)),
    ("env", ("A=",) * (STRINGS_LAST + 1)),
    ("work_dir", "relative"),
    ("work_dir", "/a\0"),
    ("stdin", "%q"),
    ("stdout", ""),
    ("stderr", "a%"),
    ("umask", 0o1000),
    ("pids_max", 0),
    ("limits", {256: (1, 1)}),
    ("limits", {resource.RLIMIT_NOFILE: (2, 1)}),
    ("limits", {resource.RLIMIT_NOFILE: (-1, 1)}),
    ("limits", {resource.RLIMIT_NOFILE: (-2, -2)}),
    ("time_limit_s", 0.0),
    ("time_limit_s", float("nan")),
    ("time_limit_s", float("inf")),
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda value: f"{value!r:.30}")
def test_what_is_not_valid_is_refused_with_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"^{field}: "):
        job_spec(**{field: value})


def test_a_job_runs_something_or_is_a_reservation() -> None:
    assert job_spec(reservation=True).reservation
    with pytest.raises(InvalidArgument, match="neither a script nor an argv"):
        job_spec(argv=())
    with pytest.raises(InvalidArgument, match="a reservation runs nothing"):
        job_spec(reservation=True, argv=("/bin/true",))
    assert job_spec(work_dir=RawBytes(b"")).wants_scratch
    assert not job_spec(work_dir="/").wants_scratch


def test_what_is_unknown_or_of_another_type_is_refused_when_it_is_read() -> None:
    form = msgspec.json.decode(encode(job_spec()))
    changes: list[dict[str, Any]] = [
        {"gpu": 1},
        {"uid": "0"},
        {"kill_plan": {"steps": []}},
        {"resources": {"cpus": 0}},
        {"script": "#"},
    ]
    for change in changes:
        with pytest.raises(RecordInvalid):
            decode(msgspec.json.encode(form | change), JobSpec, "spec")
    plan = KillPlan(steps=((9, None),))
    assert decode(encode(job_spec(kill_plan=plan)), JobSpec, "spec").kill_plan == plan


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (b"", "empty"),
        (b"echo\n", "does not name an interpreter"),
        (b"\n#!/bin/sh\n", "does not name an interpreter"),
        (b" #!/bin/sh\n", "does not name an interpreter"),
        (b"\xef\xbb\xbf#!/bin/sh\n", "byte order mark"),
        (b"#!\n", "no interpreter after"),
        (b"#! \t\n", "no interpreter after"),
        (b"#!" + b"/" * 254 + b"\n", "more than 255"),
        (b"#!sh\n", "no absolute path"),
        (b"#!/bin/sh\na\0b", "NUL"),
        (b"\x7fELF\0", "NUL"),
        (b"#!/bin/sh\n" + b"#" * SCRIPT_LIMIT_BYTES, "more than"),
    ],
    ids=lambda value: f"{value!r:.30}",
)
def test_a_script_that_the_kernel_would_not_run_is_refused_with_the_reason(script: bytes, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^script: .*{reason}"):
        job_spec(script=script)


@pytest.mark.parametrize("line", [b"#!/bin/sh", b"#! /bin/sh -e x", b"#!\t/bin/sh\t-e", b"#!/bin/sh "])
def test_the_interpreter_is_the_first_word(line: bytes) -> None:
    assert interpreter_of(line + b"\nexit\n") == "/bin/sh"
    assert interpreter_of(b"#!/bin/sh\r\n") == "/bin/sh\r"


def test_what_was_hardly_meant_is_said() -> None:
    assert "the name of its interpreter ends" in script_warnings(b"#!/bin/sh\r\nexit\r\n")[0]
    assert "the argument of its interpreter ends" in script_warnings(b"#!/usr/bin/env sh\r\nexit\r\n")[0]
    assert "CR LF" in script_warnings(b"#!/bin/sh\nexit\r\n")[0]
    assert script_warnings(b"#! /bin/sh -e\nexit\n") == ()
    assert script_warnings(b"#!/bin/sh") == ()
    job_spec(script=b"#!/bin/sh\r\nexit\r\n")
