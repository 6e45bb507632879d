"""The stat parser through cffi, driven by hypothesis."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core._native import ffi, lib

I32 = st.integers(-(2**31), 2**31 - 1)


def parse(text: bytes) -> tuple[int, Any]:
    stat: Any = ffi.new("spur_procstat_t *")
    return lib.spur_procstat_parse(text, len(text), stat), stat


@given(
    comm=st.binary(max_size=64),
    state=st.sampled_from(b"RSDZTtXI"),
    numbers=st.tuples(st.integers(1, 2**31 - 1), I32, st.integers(0, 2**31 - 1), st.integers(0, 2**64 - 1)),
    status=st.integers(0, 0xFFFF),
)
def test_any_name_and_any_numbers(*, comm: bytes, state: int, numbers: tuple[int, int, int, int], status: int) -> None:
    """The name may be any bytes at all; the fields behind it are found."""
    pid, ppid, threads, ticks = numbers
    fields: list[int] = [ppid, 2, 3, *[0] * 13, threads, 0, ticks, *[2**64 - 1] * 29, status]
    text = b"%d (%b) %c %b\n" % (pid, comm, state, b" ".join(b"%d" % number for number in fields))
    error, stat = parse(text)
    assert error == 0
    assert (stat.pid, stat.state, stat.parent_pid) == (pid, bytes([state]), ppid)
    assert (stat.threads, stat.start_ticks, stat.wait_status) == (threads, ticks, status)


@pytest.mark.parametrize(("threads", "result"), [(0, -errno.EAGAIN), (1, 0)])
def test_a_line_that_counts_no_threads_is_not_believed(tmp_path: Path, threads: int, result: int) -> None:
    """However often it is read: that of a task which was let go of while it was written, reaped or living on under the number."""
    fields = b" ".join(b"%d" % number for number in (*[1] * 16, threads, 0, 77, *[0] * 30))
    (tmp_path / "stat").write_bytes(b"7 (x) S " + fields + b"\n")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert lib.spur_procstat_read_at(folder, ffi.new("spur_procstat_t *")) == result
    finally:
        os.close(folder)


def test_a_number_that_goes_on_is_none() -> None:
    """Nor is one that the text ends in: it may be half of one."""
    numbers = b" ".join([b"1"] * 49)
    whole = b"7 (a) S " + numbers + b"\n"
    assert parse(whole)[0] == 0
    assert lib.spur_procstat_parse(whole, len(whole) - 1, ffi.new("spur_procstat_t *")) == -errno.EBADMSG
    assert parse(b"7 (a) S 1x " + numbers + b"\n")[0] == -errno.EBADMSG


@given(st.binary() | st.text(alphabet="0123456789 ()-SRZ\n", max_size=400).map(str.encode))
def test_garbage_is_refused_and_nothing_worse(text: bytes) -> None:
    error, stat = parse(text)
    assert error in (0, -errno.EBADMSG)
    assert error == 0 or stat.pid == 0
