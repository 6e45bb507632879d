"""The C parsers of a cgroup's files, driven from Python, and the values that go to disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core._native import ffi, lib
from spurproc.core.cgroup.cgroup import parse_oom_kills
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.cgroup.sweep import SeenTable, check_signal
from spurproc.errors import InvalidArgument

RECORD = {"path": "/sys/fs/cgroup/x", "inode": 42, "above_inode": 1, "boot_id": "62cb2e17-c3f3-43b2-bf44-83146ff7ff3e"}


def _events(text: bytes) -> tuple[int, int] | int:
    events: Any = ffi.new("spur_cgroup_events_t *")
    error = lib.spur_cgroup_events_parse(text, len(text), events)
    return error or (events.populated, events.frozen)


@given(
    populated=st.integers(0, 1),
    frozen=st.integers(0, 1),
    others=st.lists(st.from_regex(rb"[a-z_]{1,12} [0-9]{1,9}", fullmatch=True), max_size=3),
    order=st.randoms(use_true_random=False),
)
def test_events_are_read_by_key(populated: int, frozen: int, others: list[bytes], order: Any) -> None:
    known = (b"populated", b"frozen")
    lines = [b"populated %d" % populated, b"frozen %d" % frozen, *(line for line in others if line.split()[0] not in known)]
    order.shuffle(lines)
    assert _events(b"\n".join(lines) + b"\n") == (populated, frozen)


@given(st.binary(max_size=80))
def test_events_parser_takes_any_bytes(text: bytes) -> None:
    found = _events(text)
    assert found == -errno.EBADMSG or (isinstance(found, tuple) and b"populated" in text)


@given(pids=st.lists(st.integers(0, 2**31 - 1), max_size=60), cuts=st.lists(st.integers(1, 7), min_size=1, max_size=8))
def test_pid_list_survives_any_cut(pids: list[int], cuts: list[int]) -> None:
    """cgroup.procs comes a page at a time, and a number may be cut in two."""
    text = b"".join(b"%d\n" % pid for pid in pids)
    room: Any = ffi.new("int[]", 64)
    found: Any = ffi.new("spur_pid_list_t *", {"pids": room, "capacity": 64})
    at, turn = 0, 0
    while at < len(text):
        piece = text[at : at + cuts[turn % len(cuts)]]
        assert lib.spur_pid_list_feed(found, piece, len(piece)) == 0
        at, turn = at + len(piece), turn + 1
    assert list(room[0 : found.count]) == pids


@pytest.mark.parametrize("text", [b"-1\n", b"2147483648\n", b"1 2\n", b"\n", b"x\n", b"1\n\n"])
def test_pid_list_refuses_what_is_no_pid(text: bytes) -> None:
    found = ffi.new("spur_pid_list_t *")
    assert lib.spur_pid_list_feed(found, text, len(text)) == -errno.EBADMSG


@pytest.mark.parametrize(
    ("text", "found"),
    [(b"12\n345\n", [12, 345]), (b"", []), (b"12\n34", None), (b"12\n" * 4000, [12] * 4000), (b"1\n-2\n", None)],
)
def test_a_list_is_read_to_its_end_or_not_at_all(tmp_path: Path, text: bytes, found: list[int] | None) -> None:
    """Half a number is another process's."""
    (tmp_path / "cgroup.procs").write_bytes(text)
    pids, count = ffi.new("int[]", 8192), ffi.new("size_t *")
    folder_fd = os.open(tmp_path, os.O_RDONLY)
    error = lib.spur_cgroup_pids_read(folder_fd, b"cgroup.procs", pids, 8192, count)
    os.close(folder_fd)
    assert (list(pids[0 : count[0]]) if error == 0 else None) == found
    assert error in (0, -errno.EBADMSG)


@given(keys=st.sets(st.integers(1, 2**64 - 1), max_size=300), others=st.sets(st.integers(1, 2**64 - 1), max_size=50))
def test_seen_table_is_a_set(keys: set[int], others: set[int]) -> None:
    table = SeenTable(0)
    for key in keys:
        assert key not in table
        table.add(key)
        table.add(key)
    assert all(key in table for key in keys)
    assert not any(key in table for key in others - keys)


def test_seen_table_keeps_its_keys_when_it_grows() -> None:
    table = SeenTable(0)
    for key in range(1, 6000):
        table.add(key)
    assert all(key in table for key in range(1, 6000))
    assert 6000 not in table


def test_seen_table_keeps_one_slot_free() -> None:
    """Or the search for who is not in it would never end."""
    table: Any = ffi.new("spur_seen_t *", {"keys": (keys := ffi.new("uint64_t[]", 4)), "size": 4, "used": 0})
    assert [lib.spur_seen_add(table, key) for key in (1, 2, 3, 4)] == [0, 0, 0, -errno.ENOSPC]
    assert (list(keys).count(0), lib.spur_seen_has(table, 3)) == (1, 1)


@pytest.mark.parametrize(
    ("path", "above", "within"),
    [("/a/b", "/a", 1), ("/a", "/a", 1), ("/ab", "/a", 0), ("/", "/a", 0), ("/a", "/a/b", 0), ("/a", "/", 1), ("/b/a", "/a", 0)],
)
def test_a_path_that_only_begins_alike_is_not_within(path: str, above: str, within: int) -> None:
    assert lib.spur_cgroup_path_within(path.encode(), len(path), above.encode()) == within


@pytest.mark.parametrize("text", [b"unmovable 1\npopulated 0\n", b"populated 0\nfrozen 1\n", b"frozen 1\npopulated 0\n"])
def test_populated_is_read_by_key_where_others_stand_first(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "events").write_bytes(text)
    populated = ffi.new("int *", 7)
    with (tmp_path / "events").open("rb") as events:
        assert (lib.spur_cgroup_populated_read(events.fileno(), populated), populated[0]) == (0, 0)


@pytest.mark.parametrize("signal", [-1, 65, 1000, True, "15", 9.0, None])
def test_signal_that_is_none_is_refused(signal: object) -> None:
    with pytest.raises(InvalidArgument, match="cannot send signal"):
        check_signal(signal)


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        (b"low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 1\n", 2),
        (b"low 0\n", None),
        (b"", None),
        (b"oom_kill x\n", None),
        (b"xoom_kill 4\n", None),
    ],
)
def test_oom_kills(text: bytes, kills: int | None) -> None:
    assert parse_oom_kills(text) == kills


def test_record_comes_back_from_json() -> None:
    record = CgroupRecord.from_json(RECORD)
    assert record.to_json() == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"path": "relative"},
        {"path": None},
        {"path": "/a\0b"},
        {"inode": 0},
        {"inode": True},
        {"inode": "42"},
        {"inode": 2**64},
        {"above_inode": None},
        {"boot_id": ""},
        {"boot_id": 3},
        {"boot_id": f"{RECORD['boot_id']}0"},
    ],
)
def test_bad_record_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="cannot read a cgroup record"):
        CgroupRecord.from_json(RECORD | change)


@pytest.mark.parametrize("bad", [None, [], "x", [("path", "/a")]])
def test_what_is_no_object_is_refused(bad: object) -> None:
    with pytest.raises(InvalidArgument, match="cannot read a cgroup record: not an object"):
        CgroupRecord.from_json(bad)


@pytest.mark.parametrize("missing", list(RECORD))
def test_incomplete_record_is_refused(missing: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot read a cgroup record"):
        CgroupRecord.from_json({key: value for key, value in RECORD.items() if key != missing})
