"""Why a program did not start, in words: looked up in the launcher after the kernel said no."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence

__all__ = ["exec_reason"]

# The kernel reads this much of a file to tell what it is (BINPRM_BUF_SIZE), and follows this many interpreters.
_HEAD_BYTES = 256
_INTERPRETERS_LAST = 5
_NO_FORMAT = "Exec format error: neither a binary for this machine nor a '#!' line at its first byte; it is not handed to a shell"


def exec_reason(error: int, candidates: Sequence[bytes], folder: bytes) -> tuple[str, str | None]:
    """(reason, interpreter) for `error` at stage EXEC; the interpreter is what is missing where the script itself is there.

    `folder` is where relative paths start. Reads at most 256 bytes of regular files, so it does not block on a FIFO.
    """
    paths = [os.path.join(folder, path) for path in candidates]
    reason = os.strerror(error)
    if error == errno.ENOENT:
        return reason, next(filter(None, map(_missing_interpreter, paths)), None)
    if error == errno.ENOEXEC:
        return _NO_FORMAT, None
    if error == errno.EACCES and any(_is_noexec(path) for path in paths):
        return f"{reason}: its file system is mounted noexec", None
    return reason, None


def _missing_interpreter(path: bytes) -> str | None:
    """The first interpreter on the way from `path` that does not exist. A trailing CR is part of its name, as for the kernel."""
    for interpreter in _interpreters(path):
        if not os.path.exists(interpreter):
            return os.fsdecode(interpreter)
    return None


def _interpreters(path: bytes) -> Iterator[bytes]:
    for _ in range(_INTERPRETERS_LAST):
        head = _head(path)
        if not head.startswith(b"#!"):
            return
        words = head[2:].split(b"\n", 1)[0].strip(b" \t").replace(b"\t", b" ").split(b" ", 1)
        path = words[0]
        yield path


def _head(path: bytes) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
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
