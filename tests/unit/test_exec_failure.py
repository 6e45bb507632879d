"""The words for an exec that failed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spurproc.core.spawn.exec_failure import exec_reason


def _reason(path: Path, error: int = errno.ENOENT) -> tuple[str, str | None]:
    return exec_reason(error, [os.fsencode(path)], b"")


@pytest.mark.parametrize(
    ("content", "interpreter"),
    [
        (b"#!/no/such\n", "/no/such"),
        (b"#!/no/such", "/no/such"),
        (b"#!  /no/such arg\n", "/no/such"),
        (b"#!\t/no/such\targ\n", "/no/such"),
        (b"#!/bin/sh\r\n", "/bin/sh\r"),
        (b"#!/no/\xff\n", "/no/\udcff"),
        (b"#!/bin/sh\n", None),
        (b"", None),
        (b"\x7fELF", None),
    ],
)
def test_missing_interpreter(tmp_path: Path, content: bytes, interpreter: str | None) -> None:
    (tmp_path / "job").write_bytes(content)
    assert _reason(tmp_path / "job")[1] == interpreter


def test_interpreter_that_is_a_script_without_one(tmp_path: Path) -> None:
    """The first on the way that is not there."""
    (tmp_path / "outer").write_text(f"#!{tmp_path}/inner\n")
    (tmp_path / "inner").write_text("#!/no/such\n")
    assert _reason(tmp_path / "outer")[1] == "/no/such"


def test_script_that_is_its_own_interpreter(tmp_path: Path) -> None:
    (tmp_path / "job").write_text(f"#!{tmp_path}/job\n")
    assert _reason(tmp_path / "job")[1] is None


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A FIFO would block, a folder has no content."""
    os.mkfifo(tmp_path / "fifo")
    assert _reason(tmp_path / "fifo")[1] is None
    assert _reason(tmp_path)[1] is None
    assert _reason(tmp_path / "missing")[1] is None


def test_relative_path_starts_in_the_folder_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("#!/no/such\n")
    assert exec_reason(errno.ENOENT, [b"/nowhere", b"./job"], os.fsencode(tmp_path))[1] == "/no/such"
