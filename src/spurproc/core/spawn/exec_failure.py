"""Why a program did not start, in words: looked up in the launcher after the kernel said no."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable, Iterable, Sequence

__all__ = ["exec_reason"]

# The kernel reads 256 bytes of a file to tell what it is (BINPRM_BUF_SIZE), and follows this many interpreters.
_SCRIPT_BYTES = 256
_HEAD_BYTES = 4096  # program headers and the loader's path stand at the start of what linkers make
_INTERPRETERS_LAST = 5
_PT_INTERP = 3
# elf(5), by EI_CLASS: e_phoff with its place; e_phentsize, e_phnum with theirs; p_type, p_offset, p_filesz of a program header.
_ELF_FORMS = {1: ("=I", 28, 42, "=II8xI"), 2: ("=Q", 32, 54, "=I4xQ16xQ")}
_NO_FORMAT = "Exec format error: neither a binary for this machine nor a '#!' line at its first byte; it is not handed to a shell"


def exec_reason(error: int, candidates: Sequence[bytes], folder: bytes) -> tuple[str, str | None]:
    """(reason, interpreter) for `error` at stage EXEC.

    The interpreter is what is missing, or may not be executed, where the program itself is there and may: the one of a script's
    first line, or the loader that a binary names (another libc, 32 bits).
    `folder` is where relative paths start. Reads the head of regular files, so it does not block on a FIFO.
    """
    paths = [os.path.join(folder, path) for path in candidates]
    reason = os.strerror(error)
    if error == errno.ENOENT:
        return reason, _first_interpreter(paths, folder, lambda path: not os.path.exists(path))
    if error == errno.ENOEXEC:
        return _NO_FORMAT, None
    if error == errno.EACCES and any(_is_noexec(path) for path in paths):
        return f"{reason}: its file system is mounted noexec", None
    if error == errno.EACCES:
        return reason, _first_interpreter(filter(_is_executable, paths), folder, lambda path: not _is_executable(path))
    if error == errno.ELOOP and any(_interpreters(path, folder) for path in paths):
        return f"{reason}: of links, or of scripts that are each other's interpreter", None
    return reason, None


def _first_interpreter(paths: Iterable[bytes], folder: bytes, fails: Callable[[bytes], bool]) -> str | None:
    """The first on the way from one of `paths` that `fails`. A trailing CR is part of its name, as for the kernel."""
    return next(
        (os.fsdecode(one) for path in paths for one in _interpreters(path, folder) if fails(os.path.join(folder, one))), None
    )


def _interpreters(path: bytes, folder: bytes) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < _INTERPRETERS_LAST:
        head = _head(os.path.join(folder, path))
        if not head.startswith(b"#!"):
            return [*found, *_loader(head)]
        line = head[2:_SCRIPT_BYTES].split(b"\n", 1)[0]
        path = line.strip(b" \t").replace(b"\t", b" ").split(b" ", 1)[0]
        found.append(path)
    return found


def _loader(head: bytes) -> list[bytes]:
    """The path in PT_INTERP of a dynamic binary. elf(5)"""
    form = _ELF_FORMS.get(head[4]) if head.startswith(b"\x7fELF") and len(head) > 64 else None
    if form is None:
        return []
    table_form, table_at, sizes_at, entry_form = form
    (table,) = struct.unpack_from(table_form, head, table_at)
    size, count = struct.unpack_from("=HH", head, sizes_at)
    for at in range(table, table + size * count, size or 1):
        if at + struct.calcsize(entry_form) > len(head):
            break
        kind, offset, length = struct.unpack_from(entry_form, head, at)
        if kind == _PT_INTERP:
            return list(filter(None, [head[offset : offset + length].rstrip(b"\0")]))
    return []


def _is_executable(path: bytes) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_mode & 0o111 != 0


def _head(path: bytes) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(fd, _HEAD_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)


def _is_noexec(path: bytes) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except OSError:
        return False
