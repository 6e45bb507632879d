"""The records of a run: what is written is read back, anything else is refused as a whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.recorded.record import RunRecord, Started, parse_started, parse_usage
from spurproc.core.tree.members import Containment
from spurproc.errors import RecordInvalid

BOOT = "01234567-89ab-cdef-0123-456789abcdef"
NONCE = "0123456789abcdef" * 2
ID = ProcessIdentity(pid=7, start_ticks=8, boot_id=BOOT, pidfs_inode=9, pid_namespace=10, time_namespace=11)
RECORD = RunRecord(
    nonce=NONCE,
    boot_id=BOOT,
    launcher=ID,
    containment=Containment.CGROUP,
    cgroup=CgroupRecord(path="/c/steps/x", inode=5, above_inode=4, boot_id=BOOT),
    recorder_uid=0,
    job_uid=1000,
    argv=("sh", "-c", "exit 7"),
    candidates=("/bin/sh",),
    cwd="/",
)
texts = st.text(st.characters(exclude_categories=[]), max_size=30)


@given(st.lists(texts, max_size=5), st.none() | texts, st.integers(0, 2**32 - 1))
def test_a_run_record_is_read_back(argv: list[str], cwd: str | None, uid: int) -> None:
    """Lone surrogates, which stand for bytes that are no UTF-8, included; the file itself is ASCII."""
    record = replace(RECORD, argv=tuple(argv), cwd=cwd, job_uid=uid)
    assert RunRecord.from_bytes(record.to_bytes()) == record
    record.to_bytes().decode("ascii")


def test_a_long_argv_is_cut() -> None:
    """It is there for people; a megabyte of it is not."""
    assert len(replace(RECORD, argv=("x" * 1_000_000, "y")).to_bytes()) < 20_000


@given(st.binary(max_size=100))
def test_any_bytes_are_a_record_or_invalid(content: bytes) -> None:
    """Never another exception."""
    with pytest.raises(RecordInvalid):
        RunRecord.from_bytes(content)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(RECORD.to_bytes()))), json_values)
def test_a_field_of_the_wrong_kind_is_invalid(name: str, value: object) -> None:
    """Whatever stands in one field: the record as it was, or RecordInvalid."""
    form = json.loads(RECORD.to_bytes())
    form[name] = value
    try:
        again = RunRecord.from_bytes(json.dumps(form).encode("ascii"))
    except RecordInvalid:
        return
    assert json.loads(again.to_bytes()) == form


@pytest.mark.parametrize("name", sorted(json.loads(RECORD.to_bytes())))
def test_a_missing_field_is_invalid(name: str) -> None:
    """Nothing is filled in."""
    form = json.loads(RECORD.to_bytes())
    del form[name]
    with pytest.raises(RecordInvalid):
        RunRecord.from_bytes(json.dumps(form).encode("ascii"))


@pytest.mark.parametrize(
    ("job_uid", "recorder_uid", "may"), [(0, 0, True), (7, 7, True), (0, 7, True), (7, 0, False), (7, 8, False)]
)
def test_who_may_forge_a_record(job_uid: int, recorder_uid: int, may: bool) -> None:
    """The recorder's own user, and root."""
    assert replace(RECORD, job_uid=job_uid, recorder_uid=recorder_uid).job_may_forge is may


LINES = [f"recorder {ID.to_text()}\n", f"leader {ID.to_text()}\n", "launched\n", "empty\n"]


@pytest.mark.parametrize("count", range(5))
def test_notes_as_they_come(count: int) -> None:
    """Each line counts when its newline is there; the room behind them does not."""
    expected = Started(recorder=ID if count > 0 else None, leader=ID if count > 1 else None, launched=count > 2, empty=count > 3)
    whole = "".join(LINES[:count]).encode()
    assert parse_started(whole + bytes(100)) == expected
    if count < 4:
        assert parse_started(whole + LINES[count][:-1].encode() + bytes(100)) == expected


@pytest.mark.parametrize("content", [b"launched\n", b"\n", b"what\n", (LINES[0] * 2).encode(), b"leader x\n", b"empty x\n"])
def test_odd_notes_are_invalid(content: bytes) -> None:
    """Nothing is skipped."""
    with pytest.raises(RecordInvalid):
        parse_started(content)


@given(st.binary(max_size=300) | st.lists(st.sampled_from(LINES), max_size=6).map(lambda lines: "".join(lines).encode()))
def test_any_notes_get_an_answer(content: bytes) -> None:
    """Total: notes, or RecordInvalid."""
    try:
        parse_started(content)
    except RecordInvalid:
        return


def test_usage_is_read_back() -> None:
    """Microseconds, and bytes of what the kernel counts in KiB."""
    line = f"spurproc-usage 1 {NONCE} 1 2 3 4 5 6 7\n".encode() + bytes(50)
    usage = parse_usage(line, NONCE)
    assert usage is not None
    assert (usage.user_usec, usage.system_usec, usage.max_rss_bytes, usage.involuntary_switches) == (1, 2, 3 * 1024, 7)
    assert parse_usage(line, NONCE[::-1]) is None


@given(st.binary(max_size=300))
def test_any_usage_is_one_or_none(content: bytes) -> None:
    """It is a trimming: what cannot be read is not there."""
    assert parse_usage(content, NONCE) is None


def test_a_key_that_stands_there_twice_is_invalid() -> None:
    """Two readers need not agree on which of them counts."""
    content = RECORD.to_bytes().replace(b'"recorder_uid": 0', b'"recorder_uid": 0, "recorder_uid": 1000')
    with pytest.raises(RecordInvalid, match="twice"):
        RunRecord.from_bytes(content)


@pytest.mark.parametrize(
    "record",
    [
        replace(RECORD, cgroup=None),
        replace(RECORD, containment=Containment.DESCENDANTS),
        replace(RECORD, containment=Containment.PROCESS_GROUP, cgroup=None),
    ],
)
def test_a_containment_without_its_means_is_invalid(record: RunRecord) -> None:
    """A cgroup run without its cgroup would be judged by the leader's group alone, and be GONE too early."""
    with pytest.raises(RecordInvalid, match="does not fit"):
        RunRecord.from_bytes(record.to_bytes())


def test_a_newer_version_is_named() -> None:
    """By its number: whoever reads this knows what to upgrade."""
    with pytest.raises(RecordInvalid, match="version is 2, not 1"):
        RunRecord.from_bytes(RECORD.to_bytes().replace(b'"version": 1', b'"version": 2'))
