"""The sentinel: its grammar, and what the reader refuses to believe."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.core.recorded.sentinel import MAX_BYTES, Pending, SentinelKind, SentinelRecord, parse_sentinel, read_sentinel
from spurproc.errors import InvalidArgument, SentinelRefused, SystemCallError
from tests.pace import at_this_pace

NONCE = "0123456789abcdef" * 2
LINE = f"spurproc-exit 1 {NONCE} exited 7\n".encode()
UID = os.getuid()

records = st.one_of(
    st.builds(SentinelRecord, kind=st.just(SentinelKind.EXITED), nonce=st.just(NONCE), code=st.integers(0, 255)),
    st.builds(
        SentinelRecord,
        kind=st.just(SentinelKind.SIGNALED),
        nonce=st.just(NONCE),
        signal=st.integers(1, 64),
        core_dumped=st.booleans(),
    ),
    st.builds(
        SentinelRecord,
        kind=st.just(SentinelKind.NOT_STARTED),
        nonce=st.just(NONCE),
        stage=st.integers(0, 30),
        errno=st.integers(0, 200),
    ),
)


@given(records)
def test_every_record_is_read_back(record: SentinelRecord) -> None:
    """The line that is written means what was meant, and fits."""
    line = record.to_bytes()
    assert len(line) <= MAX_BYTES
    assert parse_sentinel(line, NONCE) == record


@given(records, st.data())
def test_a_part_of_a_line_is_never_a_record(record: SentinelRecord, data: st.DataObject) -> None:
    """However a write is torn: pending, until the newline is there."""
    line = record.to_bytes()
    assert isinstance(parse_sentinel(line[: data.draw(st.integers(0, len(line) - 1))], NONCE), Pending)


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(content: bytes) -> None:
    """The parser is total, and believes nothing that it would not have written."""
    parsed = parse_sentinel(content, NONCE)
    if isinstance(parsed, SentinelRecord):
        assert parsed.to_bytes() == content


@given(records, st.integers(0, 127), st.binary(min_size=1, max_size=1))
def test_a_changed_byte_is_never_another_spelling(record: SentinelRecord, at: int, byte: bytes) -> None:
    """One spelling for one meaning: a damaged line is refused or reads as exactly what stands there."""
    line = record.to_bytes()
    at %= len(line)
    parsed = parse_sentinel(line[:at] + byte + line[at + 1 :], NONCE)
    if isinstance(parsed, SentinelRecord):
        assert parsed.to_bytes() == line[:at] + byte + line[at + 1 :]


@pytest.mark.parametrize(
    "line",
    [
        b"exited 256",
        b"exited -1",
        b"exited 07",
        b"exited 7 ",
        b"exited  7",
        b"exited 7\r",
        b"exited \xd9\xa7",
        b"signaled 0",
        b"signaled 65",
        b"signaled 9 cored",
        b"not-started 22",
        b"not-started exec 2",
        b"exited 7\x00",
        b"EXITED 7",
    ],
)
def test_bad_grammar_is_refused(line: bytes) -> None:
    """Close is not enough."""
    assert parse_sentinel(b"spurproc-exit 1 " + NONCE.encode() + b" " + line + b"\n", NONCE) == "grammar"


def test_two_lines_are_refused() -> None:
    """SE-06: there is one end, and the first line is not picked out of several."""
    assert parse_sentinel(LINE + LINE[:10], NONCE) == "grammar"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """A descriptor of an empty folder; its name is `tmp_path`."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def put(folder: Path, content: bytes, mode: int = 0o600) -> None:
    """Write the sentinel as a plain file."""
    fd = os.open(folder / "exit", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(fd, mode)
    os.write(fd, content)
    os.close(fd)


def refusal(folder: int | Path, owner: int = UID) -> str:
    """The word with which the reader refuses; it takes less than 10 ms of its own, and waits for nobody."""
    gc.disable()  # a collection takes longer, of all that a run of all suites has gathered, and may fall due just here
    try:
        begin, worked = time.monotonic(), time.thread_time()
        with pytest.raises(SentinelRefused) as caught:
            read_sentinel(folder, NONCE, owner)
        assert time.thread_time() - worked < at_this_pace(0.010)
        assert time.monotonic() - begin < at_this_pace(10)  # on a busy machine it may have to wait for a processor
    finally:
        gc.enable()
    return caught.value.reason


def test_a_good_sentinel_is_read_by_descriptor_and_by_path(folder: int, tmp_path: Path) -> None:
    """Both ways name the same folder."""
    put(tmp_path, LINE)
    expected = SentinelRecord(kind=SentinelKind.EXITED, nonce=NONCE, code=7)
    assert read_sentinel(folder, NONCE, UID) == expected
    assert read_sentinel(tmp_path, NONCE, UID) == expected


@pytest.mark.parametrize(
    ("content", "pending"),
    [(b"", Pending.EMPTY), (LINE[:-1], Pending.PARTIAL), (LINE[:30], Pending.PARTIAL), (bytes(128), Pending.PARTIAL)],
)
def test_what_is_not_whole_is_pending(folder: int, tmp_path: Path, content: bytes, pending: Pending) -> None:
    """SE-01: empty, partial, and room that was made and not written."""
    put(tmp_path, content)
    assert read_sentinel(folder, NONCE, UID) is pending


def test_an_absent_sentinel_is_pending(folder: int) -> None:
    """It may still come."""
    assert read_sentinel(folder, NONCE, UID) is Pending.ABSENT


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "symlink", "dangling"])
def test_another_kind_of_file_is_refused_at_once(folder: int, tmp_path: Path, kind: str) -> None:
    """SE-04: the design's answer, and nobody waits for a writer."""
    path = tmp_path / "exit"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "folder":
            path.mkdir()
        case "symlink":
            (tmp_path / "true").write_bytes(LINE)
            path.symlink_to("true")
        case _:
            path.symlink_to("nowhere")
    assert refusal(folder) == ("symlink" if kind == "dangling" else kind)


@pytest.mark.needs_root
def test_a_device_is_refused(folder: int, tmp_path: Path) -> None:
    """A terminal would become ours, a tape would wind: it is closed unread."""
    os.mknod(tmp_path / "exit", 0o600 | 0o020000, os.makedev(1, 5))
    assert refusal(folder) == "device"


def test_a_hard_link_is_refused(folder: int, tmp_path: Path) -> None:
    """The same file has another name somewhere, and whoever owns that may write it."""
    put(tmp_path, LINE)
    os.link(tmp_path / "exit", tmp_path / "other")
    assert refusal(folder) == "hard-link"


def test_a_foreign_owner_is_refused(folder: int, tmp_path: Path) -> None:
    """The recorder runs as a known user."""
    put(tmp_path, LINE)
    assert refusal(folder, owner=UID + 1) == "foreign-owner"


def test_a_file_that_others_may_write_is_refused(folder: int, tmp_path: Path) -> None:
    """Its owner did not necessarily write it."""
    put(tmp_path, LINE, mode=0o622)
    assert refusal(folder) == "writable-by-others"


def test_a_file_of_one_gigabyte_is_refused(folder: int, tmp_path: Path) -> None:
    """One byte more than the most is read of it, and that is enough."""
    put(tmp_path, LINE)
    os.truncate(tmp_path / "exit", 1 << 30)
    assert refusal(folder) == "oversized"


def test_the_wrong_nonce_is_refused(folder: int, tmp_path: Path) -> None:
    """SE-06: the record of an earlier attempt is not ours."""
    put(tmp_path, LINE.replace(b"0123", b"3210", 1))
    assert refusal(folder) == "wrong-nonce"


def test_nuls_in_the_line_are_refused(folder: int, tmp_path: Path) -> None:
    """A line with a hole in it."""
    put(tmp_path, LINE.replace(b"exited", b"ex\0ted"))
    assert refusal(folder) == "grammar"


def test_a_nonce_of_ones_own_making_is_an_argument_error(folder: int) -> None:
    """A caller's mistake is not the record's."""
    with pytest.raises(InvalidArgument):
        read_sentinel(folder, "zz", UID)


def replacing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """After each of the next opens, put another file in the place of the one just opened."""
    left = [times]
    real = os.open

    def open_then_replace(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        fd = real(path, flags, mode, dir_fd=dir_fd)
        if path == "exit" and left[0]:
            left[0] -= 1
            (tmp_path / "new").write_bytes(LINE)
            (tmp_path / "new").chmod(0o600)
            (tmp_path / "new").replace(tmp_path / "exit")
        return fd

    monkeypatch.setattr(os, "open", open_then_replace)


def test_a_sentinel_replaced_while_it_is_read_is_read_again(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened has no name any more: what counts is what the name leads to."""
    put(tmp_path, LINE.replace(b"exited 7", b"exited 0"))
    replacing(tmp_path, monkeypatch, times=1)
    record = read_sentinel(folder, NONCE, UID)
    assert isinstance(record, SentinelRecord)
    assert record.code == 7


def test_a_sentinel_that_is_replaced_for_ever_is_refused(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile owner cannot keep the reader busy."""
    put(tmp_path, LINE)
    replacing(tmp_path, monkeypatch, times=1000)
    assert refusal(folder) == "unlinked"


def test_a_lease_on_the_sentinel_does_not_block(folder: int, tmp_path: Path) -> None:
    """Its holder is asked for it back; until then there is nothing to read."""
    put(tmp_path, LINE)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the kernel asks the holder
    held = os.open(tmp_path / "exit", os.O_RDWR)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    begin = time.monotonic()
    assert read_sentinel(folder, NONCE, UID) is Pending.PARTIAL
    assert time.monotonic() - begin < at_this_pace(10)  # it would wait for 45 s: lease-break-time, proc_sys_fs(5)
    os.close(held)
    signal.signal(signal.SIGIO, before)


def test_a_reader_without_descriptors_does_not_blame_the_file(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on is not UNKNOWN for good because its reader has none left for the moment."""
    put(tmp_path, LINE)

    def none_left(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(SystemCallError) as caught:
        read_sentinel(folder, NONCE, UID)
    assert caught.value.errno == errno.EMFILE
