"""The journal of a folder: whole lines only, whoever died while writing one."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.core.durable.journal import JOURNAL_NAME, LINE_LIMIT_BYTES, Journal, read_journal
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import AlreadyGone, InvalidArgument, RecordInvalid, SystemCallError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[PrivateFolder]:
    with PrivateFolder.create(tmp_path / "step") as made:
        Journal.create(made)
        yield made


def content(folder: PrivateFolder) -> bytes:
    return Path(folder.path, JOURNAL_NAME).read_bytes()


def test_lines_come_back_in_order(folder: PrivateFolder) -> None:
    """Also those of the writer before."""
    for number in range(3):
        journal = Journal.open(folder)
        assert len(journal.lines) == number
        journal.append(b"line %d" % number)
        journal.close()
        journal.close()
    assert read_journal(folder) == [b"line 0", b"line 1", b"line 2"]


def test_no_journal_is_named(tmp_path: Path) -> None:
    with PrivateFolder.create(tmp_path / "step") as folder:
        for reader in (read_journal, Journal.open):
            with pytest.raises(AlreadyGone, match=JOURNAL_NAME):
                reader(folder)


@pytest.mark.parametrize("torn", [b"x", b'{"half', b"\0\0\0"])
def test_a_torn_tail_is_ignored_and_then_cut_off(folder: PrivateFolder, torn: bytes) -> None:
    path = Path(folder.path, JOURNAL_NAME)
    path.write_bytes(b"whole\n" + torn)
    assert read_journal(folder) == [b"whole"]
    assert content(folder).endswith(torn), "a reader changes nothing"
    journal = Journal.open(folder)
    assert journal.lines == [b"whole"]
    journal.append(b"next")
    journal.close()
    assert content(folder) == b"whole\nnext\n"


def test_a_short_write_leaves_nothing_behind(folder: PrivateFolder) -> None:
    """RLIMIT_FSIZE cuts a write(2) short, as a full disk does: what was written of the line is taken back."""
    journal = Journal.open(folder)
    journal.append(b"first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(SystemCallError) as refused:
            journal.append(b"a line that is longer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.errno == errno.ENOSPC
    assert content(folder) == b"first\n"
    journal.append(b"second")
    journal.close()
    assert read_journal(folder) == [b"first", b"second"]


@pytest.mark.parametrize("line", [b"two\nlines", b"x" * LINE_LIMIT_BYTES])
def test_what_is_no_line_is_refused(folder: PrivateFolder, line: bytes) -> None:
    journal = Journal.open(folder)
    with pytest.raises(InvalidArgument, match="not one line"):
        journal.append(line)
    journal.close()
    assert content(folder) == b""


def test_a_line_that_nobody_may_have_written_is_refused(folder: PrivateFolder) -> None:
    Path(folder.path, JOURNAL_NAME).write_bytes(b"x" * LINE_LIMIT_BYTES + b"\n")
    with pytest.raises(RecordInvalid, match="a line of more than"):
        read_journal(folder)


def test_room_is_made_without_a_trace_for_readers(folder: PrivateFolder) -> None:
    """The file takes blocks and keeps its size."""
    journal = Journal.open(folder)
    before = os.stat(Path(folder.path, JOURNAL_NAME)).st_blocks
    if journal.reserve(1 << 16):
        assert os.stat(Path(folder.path, JOURNAL_NAME)).st_blocks >= before + (1 << 16) // 512
    journal.append(b"first")
    journal.close()
    assert content(folder) == b"first\n"


def test_opening_a_whole_journal_changes_nothing(folder: PrivateFolder) -> None:
    """Its time of change says when something was written last: what is removed for its age rests on that."""
    path = Path(folder.path, JOURNAL_NAME)
    path.write_bytes(b"whole\n")
    os.utime(path, (1, 1))
    Journal.open(folder).close()
    assert path.stat().st_mtime == 1
