"""The words for an exec that failed."""

from __future__ import annotations

import errno
import os
import struct
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


def test_relative_interpreter_starts_there_too(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("#!inner\n")
    (tmp_path / "inner").touch()
    assert exec_reason(errno.ENOENT, [b"./job"], os.fsencode(tmp_path))[1] is None
    assert exec_reason(errno.ENOENT, [b"./job"], os.fsencode(tmp_path.parent))[1] is None
    (tmp_path / "inner").unlink()
    assert exec_reason(errno.ENOENT, [b"./job"], os.fsencode(tmp_path))[1] == "inner"


def _binary(form: int, loader: bytes) -> bytes:
    """A file that begins like a dynamic binary, with one program header: its loader."""
    header, entry = (52, 32) if form == 1 else (64, 56)
    head = bytearray(header + entry + 200)
    head[:6] = b"\x7fELF" + bytes((form, 1))
    start = header + entry
    if form == 1:
        struct.pack_into("=I", head, 28, header)
        struct.pack_into("=HH", head, 42, entry, 1)
        struct.pack_into("=IIIII", head, header, 3, start, 0, 0, len(loader) + 1)
    else:
        struct.pack_into("=Q", head, 32, header)
        struct.pack_into("=HH", head, 54, entry, 1)
        struct.pack_into("=IIQQQQ", head, header, 3, 0, start, 0, 0, len(loader) + 1)
    head[start : start + len(loader)] = loader
    return bytes(head)


@pytest.mark.parametrize("form", [1, 2])
def test_missing_loader_of_a_binary(tmp_path: Path, form: int) -> None:
    """Another libc, or 32 bits: ENOENT, and yet the program is there."""
    (tmp_path / "job").write_bytes(_binary(form, b"/lib/no-such-ld.so.1"))
    assert _reason(tmp_path / "job")[1] == "/lib/no-such-ld.so.1"
    (tmp_path / "job").write_bytes(_binary(form, b"/bin/sh"))
    assert _reason(tmp_path / "job")[1] is None
    for cut in range(130):  # a torn file is no reason to fail in another way
        (tmp_path / "job").write_bytes(_binary(form, b"/lib/no-such-ld.so.1")[:cut])
        assert "/lib/no-such-ld.so.1".startswith(_reason(tmp_path / "job")[1] or "/")


def test_interpreter_that_may_not_be_executed(tmp_path: Path) -> None:
    """EACCES is the interpreter's where the script itself may be executed."""
    (tmp_path / "job").write_text(f"#!{tmp_path}/inner\n")
    (tmp_path / "inner").touch(0o644)
    (tmp_path / "job").chmod(0o755)
    assert _reason(tmp_path / "job", errno.EACCES)[1] == f"{tmp_path}/inner"
    (tmp_path / "job").chmod(0o644)
    assert _reason(tmp_path / "job", errno.EACCES)[1] is None
