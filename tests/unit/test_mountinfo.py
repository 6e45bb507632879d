"""proc_pid_mountinfo(5): escapes, optional fields, bind mounts, several mounts and views from a cgroup namespace."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core.mountinfo import (
    Mount,
    cgroup2_mounts,
    parse_cgroup2_mounts,
    parse_mountinfo,
    read_cgroup2_mounts,
    read_mountinfo,
)

HYBRID = b"""31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,nosuid shared:10 master:2 - cgroup2 cgroup2 rw,nsdelegate
"""
_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
_IDS = itertools.count(9)
_ESCAPED = (b"\\", b" ", b"\t", b"\n", b"#")


def _escape(name: str) -> bytes:
    raw = os.fsencode(name)
    for byte in _ESCAPED:
        raw = raw.replace(byte, b"\\%03o" % byte[0])
    return raw


def _mount(root: str, point: str, *, fs_type: str = "cgroup2", options: str = "rw") -> Mount:
    fields = (next(_IDS), _escape(root), _escape(point), options.encode(), fs_type.encode())
    text = b"%d 1 0:5 %s %s %s - %s cgroup2 rw\n" % fields
    return parse_mountinfo(text)[0]


def test_hybrid_layout_finds_the_v2_mount_by_type() -> None:
    found = cgroup2_mounts(parse_mountinfo(HYBRID))
    assert [(mount.mount_id, mount.root, mount.point) for mount in found] == [(41, "/", "/sys/fs/cgroup/unified")]
    assert found[0].super_options == {"rw", "nsdelegate"}


def test_escapes_are_undone_once() -> None:
    text = b"9 1 0:5 /a\\134040b /mnt/sp\\040ace\\011tab\\012line\\043hash rw - cgroup2 none rw\n"
    mount = parse_mountinfo(text)[0]
    assert mount.root == "/a\\040b"
    assert mount.point == "/mnt/sp ace\ttab\nline#hash"


def test_bytes_that_are_no_text_come_back() -> None:
    mount = parse_mountinfo(b"9 1 0:5 / /mnt/\xff\xfe rw - cgroup2 none rw\n")[0]
    assert os.fsencode(mount.point) == b"/mnt/\xff\xfe"


def test_widest_view_first_and_writable_before_read_only() -> None:
    mounts = (_mount("/sub", "/bind"), _mount("/", "/ro", options="ro"), _mount("/", "/rw"), _mount("/..", "/outside"))
    assert [mount.point for mount in cgroup2_mounts(mounts)] == ["/rw", "/ro", "/outside", "/bind"]


def test_covered_mount_is_not_offered() -> None:
    assert cgroup2_mounts((_mount("/", "/cg"), _mount("/", "/cg", fs_type="tmpfs"))) == ()


@pytest.mark.parametrize(
    ("root", "point", "path", "inside"),
    [
        ("/", "/cg", "/cg/a/b", "/a/b"),
        ("/", "/cg", "/cg", "/"),
        ("/sub", "/bind", "/bind/x", "/sub/x"),
        ("/sub", "/bind", "/bind", "/sub"),
        ("/..", "/cg", "/cg/x", "/../x"),
        ("/", "/cg", "/cgx/a", None),
        ("/", "/cg", "/", None),
        ("/", "/", "/a", "/a"),
    ],
)
def test_path_inside(root: str, point: str, path: str, inside: str | None) -> None:
    assert _mount(root, point).path_inside(path) == inside


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"9 1 0:5 / /cg rw", b"9 1 0:5 / /cg rw - cgroup2", b"x 1 0:5 / /cg rw - cgroup2 none rw", b"- - - - - - - - -"],
)
def test_line_that_is_no_mount_is_left_out(line: bytes) -> None:
    assert parse_mountinfo(line + b"\n") == ()


@given(root=_NAMES, point=_NAMES, optional=st.lists(st.sampled_from([b"shared:1", b"master:2", b"unbindable"]), max_size=3))
def test_every_name_comes_back(root: str, point: str, optional: list[bytes]) -> None:
    fields = [b"7", b"1", b"0:5", _escape("/" + root), _escape("/" + point), b"rw", *optional, b"-", b"cgroup2", b"x", b"rw"]
    mount = parse_mountinfo(b" ".join(fields) + b"\n")[0]
    assert (mount.root, mount.point, mount.fs_type) == ("/" + root, "/" + point, "cgroup2")


@given(st.binary(max_size=300))
def test_no_text_upsets_the_parser(text: bytes) -> None:
    for mount in parse_mountinfo(text):
        mount.path_inside("/x")


def test_own_mounts_are_read() -> None:
    assert "/proc" in {mount.point for mount in read_mountinfo()}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"/", b"/cg", b"/cg\\040x"]),
            st.sampled_from([b"cgroup2", b"cgroup", b"tmpfs"]),
            st.sampled_from([b"rw", b"ro"]),
        )
    )
)
def test_nothing_is_missed_by_parsing_less(mounts: list[tuple[bytes, bytes, bytes]]) -> None:
    """Neither a cgroup2 mount nor one of another kind that covers it."""
    text = b"".join(b"9 1 0:5 / %s %s shared:1 - %s none rw\n" % (point, options, kind) for point, kind, options in mounts)
    assert parse_cgroup2_mounts(text) == cgroup2_mounts(parse_mountinfo(text))


def test_own_cgroup2_mounts_are_read() -> None:
    assert read_cgroup2_mounts() == cgroup2_mounts(read_mountinfo())
