"""The sentinel: the one line in which a recorder says how the leader ended, and the careful way to read it.

    spurproc-exit 1 <nonce> exited <code>
    spurproc-exit 1 <nonce> signaled <signal> [core]
    spurproc-exit 1 <nonce> not-started <stage> <errno>

The parser is pure. The reader assumes that whoever wrote the file may be hostile: it never blocks, follows no link, and believes
only a plain file with one link, the owner it expects and at most 128 bytes.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import stat
from dataclasses import dataclass

from spurproc.errors import InvalidArgument, SentinelRefused, from_errno

__all__ = ["MAX_BYTES", "Pending", "SentinelKind", "SentinelRecord", "parse_sentinel", "read_sentinel"]

MAX_BYTES = 128
NAME = "exit"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_REPLACEMENTS = 3  # how often the name may move to another file under the reader before it is refused

_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_NUMBER = r"(0|[1-9][0-9]{0,3})"
_NONCE = re.compile(r"[0-9a-f]{32}")
_LINE = re.compile(
    rf"spurproc-exit 1 ([0-9a-f]{{32}}) (?:exited {_NUMBER}|signaled {_NUMBER}( core)?|not-started {_NUMBER} {_NUMBER})",
    re.ASCII,
)
_MAX_CODE = 255
_MAX_SIGNAL = 64


class SentinelKind(enum.Enum):
    """How the leader ended, in the sentinel's own words."""

    EXITED = "exited"
    SIGNALED = "signaled"
    NOT_STARTED = "not-started"


class Pending(enum.Enum):
    """There is no whole record yet: it may still come, or never, if whoever would write it is dead."""

    ABSENT = "absent"
    EMPTY = "empty"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelRecord:
    """One sentinel. Only the fields of its kind are set: `code`; `signal`, `core_dumped`; `stage` (a SpawnStage), `errno`."""

    kind: SentinelKind
    nonce: str
    code: int | None = None
    signal: int | None = None
    core_dumped: bool = False
    stage: int | None = None
    errno: int | None = None

    def to_bytes(self) -> bytes:
        """The line as a recorder writes it."""
        match self.kind:
            case SentinelKind.EXITED:
                rest = f"{self.code}"
            case SentinelKind.SIGNALED:
                rest = f"{self.signal}" + (" core" if self.core_dumped else "")
            case _:
                rest = f"{self.stage} {self.errno}"
        return f"spurproc-exit 1 {self.nonce} {self.kind.value} {rest}\n".encode("ascii")


def parse_sentinel(content: bytes, nonce: str) -> SentinelRecord | Pending | str:
    """The record in `content`; Pending while it has no newline; or the word that says why it is refused.

    Pure, total: any bytes give one of the three.
    """
    if len(content) > MAX_BYTES:
        return "oversized"
    line, newline, rest = content.partition(b"\n")
    if not newline:
        return Pending.PARTIAL if line else Pending.EMPTY
    match = _LINE.fullmatch(line.decode("latin-1"))
    record = None if match is None or rest else _record_of(match)
    if record is None:
        return "grammar"
    return record if record.nonce == nonce else "wrong-nonce"


def _record_of(match: re.Match[str]) -> SentinelRecord | None:
    """None where a number is out of its range."""
    nonce, code, signal, core, stage, number = match.groups()
    if code is not None:
        return SentinelRecord(kind=SentinelKind.EXITED, nonce=nonce, code=int(code)) if int(code) <= _MAX_CODE else None
    if stage is not None:
        return SentinelRecord(kind=SentinelKind.NOT_STARTED, nonce=nonce, stage=int(stage), errno=int(number))
    if not 1 <= int(signal) <= _MAX_SIGNAL:
        return None
    return SentinelRecord(kind=SentinelKind.SIGNALED, nonce=nonce, signal=int(signal), core_dumped=core is not None)


def read_sentinel(folder: int | str | os.PathLike[str], nonce: str, owner: int) -> SentinelRecord | Pending:
    """The sentinel of the run with this nonce, written by user `owner`, in `folder` (a descriptor, borrowed, or a path).

    Raises SentinelRefused where what stands there may not be believed; its reason is one of symlink, folder, fifo, socket,
    device, unlinked, hard-link, foreign-owner, writable-by-others, oversized, grammar, wrong-nonce, unreadable; SystemCallError
    where this process has no descriptor or memory left to look. Never blocks.
    """
    if _NONCE.fullmatch(nonce) is None:
        raise InvalidArgument(f"cannot read a sentinel for the nonce {nonce!r}: not 32 hexadecimal digits")
    if isinstance(folder, int):
        return _read_in(folder, nonce, owner)
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise from_errno(error.errno or 0, "open", f"the folder {os.fspath(folder)!r}") from error
    try:
        return _read_in(fd, nonce, owner)
    finally:
        os.close(fd)


def _read_in(folder_fd: int, nonce: str, owner: int) -> SentinelRecord | Pending:
    reason = "unlinked"
    for _ in range(_REPLACEMENTS):
        content = _read_once(folder_fd, owner)
        if isinstance(content, Pending):
            return content
        if content is None:
            continue  # another file took the name between open and fstat: look again
        parsed = parse_sentinel(content, nonce)
        if not isinstance(parsed, str):
            return parsed
        reason = parsed
        break
    raise SentinelRefused(reason, NAME)


def _read_once(folder_fd: int, owner: int) -> bytes | Pending | None:
    """The file's bytes; Pending where there is none; None where it lost its name while it was opened."""
    try:
        fd = os.open(NAME, _READ, dir_fd=folder_fd)
    except FileNotFoundError:
        return Pending.ABSENT
    except OSError as error:
        if error.errno in _OURS:  # it says nothing of the file
            raise from_errno(error.errno or 0, "open", "the sentinel") from error
        if error.errno == errno.EAGAIN:  # somebody holds a lease on it; the open has asked for it back
            return Pending.PARTIAL
        words = {errno.ELOOP: "symlink", errno.ENXIO: "socket"}
        raise SentinelRefused(words.get(error.errno or 0, "unreadable"), NAME) from error
    try:
        facts = os.fstat(fd)
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0:
            return None
        reason = _judge(facts, owner)
        if reason is not None:
            raise SentinelRefused(reason, NAME)
        return os.pread(fd, MAX_BYTES + 1, 0)
    except OSError as error:
        raise SentinelRefused("unreadable", NAME) from error
    finally:
        os.close(fd)


def _judge(facts: os.stat_result, owner: int) -> str | None:
    """Why a file with these facts may not be believed, or None."""
    kinds = {
        stat.S_IFDIR: "folder",
        stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "device",
        stat.S_IFBLK: "device",
    }
    checks = (
        (not stat.S_ISREG(facts.st_mode), kinds.get(stat.S_IFMT(facts.st_mode), "unreadable")),
        (facts.st_nlink != 1, "hard-link"),
        (facts.st_uid != owner, "foreign-owner"),
        (bool(facts.st_mode & 0o022), "writable-by-others"),
    )
    return next((reason for failed, reason in checks if failed), None)
