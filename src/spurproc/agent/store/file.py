"""The file of a database: made private, looked at before it is trusted, and of a version that this program understands."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from spurproc.core.durable.private_folder import named_errors
from spurproc.errors import (
    AlreadyGone,
    Busy,
    NotPermitted,
    RecordInvalid,
    RecordTooNew,
    SpurprocError,
    SystemCallError,
    from_errno,
)

__all__ = ["Schema", "open_connection", "told"]

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_FILE = 0o600
_COMPANIONS = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database. Source: sqlite.org/tempfiles.html"""
_BUSY_S = 10.0
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # in WAL mode anything less loses what was told as done, at a power cut
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cache_size = -1024",
    "PRAGMA journal_size_limit = 8388608",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a database holds. `scripts`: number n makes version n of n - 1, so that an older file is brought up to date."""

    application_id: int
    """Told from others by it, a signed 32-bit number. Source: sqlite.org/pragma.html, "PRAGMA application_id"."""
    scripts: tuple[str, ...]

    @property
    def version(self) -> int:
        """What this program writes."""
        return len(self.scripts)


def open_connection(path: str, schema: Schema) -> sqlite3.Connection:
    """The database at `path`, made if there is none; its folder has to be ours. The caller owns the connection.

    Raises NotPermitted for what is not ours, or not private, or a link; RecordTooNew for one of a later version, by its number;
    RecordInvalid for what is no such database.
    """
    _check_folder(os.path.dirname(path))
    _make(path)
    for companion in _COMPANIONS:
        _check_file(path + companion)
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # one damaged text makes no query fail
        try:
            _set_up(connection, path, schema)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise told(error, "open", path) or error from error
    return connection


def told(error: sqlite3.Error, verb: str, path: str) -> SpurprocError | None:
    """What the disk, and not a statement, is to blame for, as one of ours; None for anything else.

    Source: sqlite.org/rescode.html; the low byte is the primary code.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return RecordInvalid(path, str(error))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(errno.EBUSY, f"cannot {verb} {path!r}: another program holds it ({error})")
    number = _ERRNOS.get(code)
    return None if number is None else SystemCallError(number, f"cannot {verb} {path!r}: {os.strerror(number)} ({error})")


_ERRNOS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
}


def _check_folder(folder: str) -> None:
    """Whoever can rename in it decides which file a path leads to, at any moment: so only we may."""
    with named_errors("look at", f"the folder {folder!r}"):
        facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise NotPermitted(errno.EPERM, f"cannot trust the folder {folder!r}: not a folder of ours that only we may write")


def _make(path: str) -> None:
    """Empty, before SQLite opens it, for that goes by the umask; its companions have the mode that it has."""
    with named_errors("create", repr(path)):
        try:
            fd = os.open(path, _CREATE, _PRIVATE_FILE)
        except FileExistsError:
            return
        try:
            os.fchmod(fd, _PRIVATE_FILE)
        finally:
            os.close(fd)
        above_fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above_fd)
        finally:
            os.close(above_fd)


def _check_file(path: str) -> None:
    """By its name and never opened: any close of the file in this process would free the locks of SQLite (fcntl_locking(2))."""
    with suppress(AlreadyGone), named_errors("look at", repr(path)):
        facts = os.lstat(path)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise NotPermitted(errno.EPERM, f"cannot trust {path!r}: not a plain file with one name")
        if facts.st_uid != os.geteuid():
            raise NotPermitted(errno.EPERM, f"cannot trust {path!r}: it belongs to user {facts.st_uid}")
        if facts.st_mode & 0o077:
            mode = stat.S_IMODE(facts.st_mode)
            raise NotPermitted(errno.EPERM, f"cannot trust {path!r}: its mode is {mode:04o}, not 0600 (chmod it)")


def _set_up(connection: sqlite3.Connection, path: str, schema: Schema) -> None:
    found = _number(connection, "user_version")
    whose = _number(connection, "application_id")
    if found and whose != schema.application_id:
        raise RecordInvalid(path, "it is a database of something else")
    if found > schema.version:
        raise RecordTooNew(path, found)
    if not found and _number(connection, "schema_version"):
        raise RecordInvalid(path, "it holds tables, and no version")
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    if _number(connection, "synchronous") != 2 or connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        raise from_errno(errno.EOPNOTSUPP, "keep a write-ahead log for", repr(path))
    for version in range(found, schema.version):
        _bring_up(connection, schema, version + 1)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _bring_up(connection: sqlite3.Connection, schema: Schema, version: int) -> None:
    """All of a version or nothing: its number, too, is a part of the transaction."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {schema.scripts[version - 1]};"
        f"PRAGMA application_id = {schema.application_id}; PRAGMA user_version = {version}; COMMIT"
    )
