"""The packer and the C reader agree: offsets by the compiler's word, content by reading plans back."""

from __future__ import annotations

import ctypes
import errno
import mmap
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core._native import ffi, lib
from spurproc.core.spawn.plan_layout import HEADER, HEADER_FIELDS, PlanFields, RecorderPart, pack_plan
from spurproc.errors import InvalidArgument
from tests.spawning import in_child

TEXT = st.binary(max_size=30).map(lambda data: data.replace(b"\0", b""))
NUMBER = st.integers(0, 2**32 - 1)
FULL: dict[str, Any] = {
    "argv": [b"sh"],
    "envp": [],
    "candidates": [b"/bin/sh"],
    "mode": 2,
    "facilities": 0xFFF,
    "stdio_fd": (-1, 7, -1),
    "stdio_path": (b"/in", None, b"/err"),
    "gate_fd": 9,
    "cgroup_fd": 10,
    "cgroup_inode": 1 << 40,
    "uid": 1,
    "gid": 2,
    "groups": [3, 4],
    "umask": 0o22,
    "oom_score_adj": -5,
    "no_new_privs": True,
    "cwd": b"/tmp",
    "limits": [(7, 100, 2**64 - 1)],
    "affinity": bytes(8),
    "pass_fds": [11, 12, 13],
    "recorder": RecorderPart(folder_fd=20, lock_fd=21, home_fd=22, containment=1, nonce=b"0123456789abcdef" * 2),
}


def test_header_is_the_compilers() -> None:
    """Every field of the struct stands where the format string puts it."""
    assert HEADER.size == ffi.sizeof("spur_plan_t")
    described = ffi.typeof("spur_plan_t").fields or []
    assert [name for name, _ in described] == list(HEADER_FIELDS)
    # Each byte that the packer leaves out is a gap the compiler would have made: there is none.
    ends = [field.offset + ffi.sizeof(field.type) for _, field in described]
    starts = [field.offset for _, field in described]
    assert [0, *ends] == [*starts, HEADER.size]


def test_every_field_arrives() -> None:
    packed = pack_plan(PlanFields(**FULL))
    plan: Any = ffi.cast("spur_plan_t *", ffi.from_buffer(packed))
    for name in (
        "mode",
        "facilities",
        "gate_fd",
        "cgroup_fd",
        "cgroup_inode",
        "uid",
        "gid",
        "umask",
        "oom_score_adj",
    ):
        assert getattr(plan, name) == FULL[name], name
    assert plan.flags == 127
    assert plan.channel_fd == -1
    assert list(plan.stdio_fd) == [-1, 7, -1]
    assert (plan.recorder.folder_fd, plan.recorder.lock_fd, plan.recorder.home_fd, plan.recorder.containment) == (20, 21, 22, 1)
    assert bytes(ffi.buffer(plan.recorder.nonce)) == FULL["recorder"].nonce
    assert [plan.groups_count, plan.limits_count, plan.affinity_bytes, plan.pass_fds_count] == [2, 1, 8, 3]
    places = 8 * (len(FULL["argv"]) + len(FULL["envp"]) + len(FULL["candidates"]) + 3)
    arrays = struct.pack("=3Q 8s 2I 3i", *FULL["limits"][0], FULL["affinity"], *FULL["groups"], *FULL["pass_fds"])
    strings = b"sh\0/bin/sh\0/in\0\0/err\0/tmp\0"
    assert packed[HEADER.size :] == bytes(places) + arrays + strings


@given(
    argv=st.lists(TEXT, min_size=1, max_size=5),
    envp=st.lists(TEXT, max_size=5),
    candidates=st.lists(TEXT, min_size=1, max_size=3),
    groups=st.none() | st.lists(NUMBER, max_size=5),
    limits=st.lists(st.tuples(st.integers(0, 15), NUMBER, NUMBER), max_size=3),
    pass_fds=st.lists(st.integers(3, 2**31 - 1), max_size=5),
    words=st.integers(0, 4),
    paths=st.tuples(*[TEXT] * 3),
    cwd=st.none() | TEXT,
)
def test_the_core_accepts_what_is_packed(words: int, paths: Any, **fields: Any) -> None:
    """And finds the strings where they are."""
    packed = pack_plan(
        PlanFields(mode=1, facilities=0, stdio_fd=(-1, -1, -1), stdio_path=paths, affinity=bytes(words * 8), **fields)
    )
    memory = ffi.from_buffer(packed, require_writable=True)
    for _ in range(2):  # a spawn that is refused is tried again with the same plan
        assert lib.spur_plan_check(memory, len(packed)) == 0
        at = int(ffi.cast("uintptr_t", memory)) + HEADER.size
        for name in ("argv", "envp", "candidates"):
            table: Any = ffi.cast("char **", at)
            count = len(fields[name])
            assert [ffi.string(table[index]) for index in range(count)] == fields[name]
            assert table[count] == ffi.NULL
            at += 8 * (count + 1)


@pytest.mark.parametrize("change", ["a string more", "a string less"])
def test_a_plan_whose_strings_do_not_fill_it_is_refused(change: str) -> None:
    """Its counts and its size contradict each other: it is none of ours."""
    packed = pack_plan(PlanFields(**FULL))
    if change == "a string more":
        packed += b"more\0"
    else:
        del packed[-len(b"/tmp\0") :]
    plan: Any = ffi.cast("spur_plan_t *", ffi.from_buffer(packed))
    plan.size = len(packed)
    assert lib.spur_plan_check(ffi.from_buffer(packed, require_writable=True), len(packed)) == -errno.EBADMSG


def test_a_plan_that_ends_too_early_is_not_read_beyond() -> None:
    """Its last string is missing, and behind it lies what nobody may read."""
    packed = pack_plan(PlanFields(**FULL))[: -len(b"/tmp\0")]

    def body() -> None:
        libc = ctypes.CDLL(None)
        pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        assert libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
        pages[mmap.PAGESIZE - len(packed) : mmap.PAGESIZE] = bytes(packed)
        plan: Any = ffi.cast("spur_plan_t *", start + mmap.PAGESIZE - len(packed))
        plan.size = len(packed)
        assert lib.spur_plan_check(plan, len(packed)) == -errno.EBADMSG

    in_child(body)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("argv", {"argv": [b"a\0b"]}),
        ("env", {"envp": [b"A=\0"]}),
        ("cwd", {"cwd": b"/\0"}),
        ("stdin", {"stdio_path": (b"\0", None, b"x")}),
        ("stderr", {"stdio_path": (b"x", None, b"x\0")}),
    ],
)
def test_nul_is_refused(field: str, change: dict[str, Any]) -> None:
    """A string cut short at a NUL would start another program, or write another file."""
    with pytest.raises(InvalidArgument, match=f"^{field}: "):
        pack_plan(PlanFields(**(FULL | change)))
