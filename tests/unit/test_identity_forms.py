"""The stored forms of an identity: what is written is read back, and nothing else is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core._native import ffi
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import SUBJECT
from spurproc.errors import InvalidArgument

BOOT = "62cb2e17-c3f3-43b2-bf44-83146ff7ff3e"
U64 = st.integers(0, 2**64 - 1)
IDENTITIES = st.builds(
    ProcessIdentity,
    pid=st.integers(1, 2**31 - 1),
    start_ticks=U64,
    boot_id=st.uuids().map(str),
    pidfs_inode=st.none() | st.integers(1, 2**64 - 1),
    pid_namespace=U64,
    time_namespace=U64,
)
SAMPLE = ProcessIdentity(pid=42, start_ticks=7, boot_id=BOOT, pidfs_inode=99, pid_namespace=4026531836, time_namespace=4026531834)
TEXT = f"spurproc-id 1 42 7 {BOOT} 99 4026531836 4026531834"


@given(IDENTITIES)
def test_text_comes_back(identity: ProcessIdentity) -> None:
    assert ProcessIdentity.from_text(identity.to_text()) == identity


@given(IDENTITIES)
def test_json_comes_back(identity: ProcessIdentity) -> None:
    assert ProcessIdentity.from_json(json.loads(json.dumps(identity.to_json()))) == identity


def test_text_is_the_documented_line() -> None:
    assert str(SAMPLE) == SAMPLE.to_text() == TEXT
    assert replace(SAMPLE, pidfs_inode=None).to_text() == TEXT.replace(" 99 ", " - ")


def test_packed_form_is_the_c_structure() -> None:
    """`struct` and the C compiler agree on every offset."""
    assert ffi.sizeof("spur_subject_t") == SUBJECT.size
    subject: Any = ffi.new("spur_subject_t *")
    ffi.memmove(subject, SAMPLE.packed, SUBJECT.size)
    assert (subject.number, subject.start_ticks, subject.inode) == (42, 7, 99)
    assert (subject.pid_namespace, subject.time_namespace) == (4026531836, 4026531834)
    assert bytes(subject.boot_id).hex() == BOOT.replace("-", "")


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        ("", "six fields"),
        (TEXT + " ", "six fields"),
        (TEXT + "\n", "time_namespace"),
        (" " + TEXT, "six fields"),
        (TEXT.replace(" 1 42", " 2 42"), "spurproc-id 1"),
        (TEXT.replace(" 42 ", " 0 "), "pid"),
        (TEXT.replace(" 42 ", " -1 "), "pid"),
        (TEXT.replace(" 42 ", " 042 "), "pid"),
        (TEXT.replace(" 42 ", " +42 "), "pid"),
        (TEXT.replace(" 42 ", " 4_2 "), "pid"),
        (TEXT.replace(" 42 ", " ٤٢ "), "pid"),
        (TEXT.replace(" 42 ", " 2147483648 "), "pid"),
        (TEXT.replace(" 7 ", f" {2**64} "), "start_ticks"),
        (TEXT.replace(" 7 ", " 7.0 "), "start_ticks"),
        (TEXT.replace(" 99 ", " 0 "), "pidfs_inode"),
        (TEXT.replace(" 99 ", "  "), "pidfs_inode"),
        (TEXT.replace(BOOT, BOOT.upper()), "boot_id"),
        (TEXT.replace(BOOT, BOOT.replace("-", "")), "boot_id"),
        (TEXT.replace(BOOT, "-"), "boot_id"),
        (TEXT.replace("4026531836", "x"), "pid_namespace"),
        ("9" * 100_000, "six fields"),
        (TEXT.encode(), "six fields"),
        (None, "six fields"),
    ],
)
def test_bad_text_is_refused_by_its_part(bad: object, part: str) -> None:
    with pytest.raises(InvalidArgument, match=part) as caught:
        ProcessIdentity.from_text(bad)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"pid": True}, "pid"),
        ({"pid": 42.0}, "pid"),
        ({"pid": "42"}, "pid"),
        ({"pid": None}, "pid"),
        ({"start_ticks": -1}, "start_ticks"),
        ({"pidfs_inode": 0}, "pidfs_inode"),
        ({"pidfs_inode": False}, "pidfs_inode"),
        ({"boot_id": None}, "boot_id"),
        ({"boot_id": BOOT + "\n"}, "boot_id"),
        ({"pid_namespace": []}, "pid_namespace"),
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"version": "1"}, "version"),
        ({"version": 1.0}, "version"),
        ({"extra": 1}, "object"),
    ],
)
def test_bad_json_is_refused_by_its_part(change: dict[str, object], part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        ProcessIdentity.from_json({**SAMPLE.to_json(), **change})


@pytest.mark.parametrize("name", sorted(SAMPLE.to_json()))
def test_json_without_a_field_is_refused(name: str) -> None:
    form = SAMPLE.to_json()
    del form[name]
    with pytest.raises(InvalidArgument):
        ProcessIdentity.from_json(form)


@given(st.text() | st.lists(st.text(max_size=8), max_size=9).map(lambda parts: " ".join(["spurproc-id", "1", *parts])))
def test_garbage_text_is_refused_and_nothing_worse(text: str) -> None:
    _refuses_or_comes_back(lambda: ProcessIdentity.from_text(text), text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(JSON | st.fixed_dictionaries(dict.fromkeys(SAMPLE.to_json(), JSON)))
def test_garbage_json_is_refused_and_nothing_worse(form: object) -> None:
    _refuses_or_comes_back(lambda: ProcessIdentity.from_json(form), form)


def _refuses_or_comes_back(parse: Any, form: object) -> None:
    try:
        identity = parse()
    except InvalidArgument:
        return
    assert form in (identity.to_text(), identity.to_json())
