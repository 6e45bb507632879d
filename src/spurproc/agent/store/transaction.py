"""What many want written, as one transaction: each in a savepoint, so that one that fails undoes itself alone."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

__all__ = ["CommitPoint", "Failpoint", "Work", "read_alone", "write_together"]


class CommitPoint(enum.Enum):
    """Where a transaction stands, for who makes a crash there."""

    BEGIN = "begin"
    BEFORE_COMMIT = "before commit"
    AFTER_COMMIT = "after commit"
    """It is durable, and nobody has been told."""


Failpoint = Callable[[CommitPoint], None]
"""Called on the thread of the database, at each transaction. What it raises all of the transaction get as their error."""


class Work:
    """One that wants something of the database, and then what came of it: a value or an error."""

    __slots__ = ("body", "error", "value")

    def __init__(self, body: Callable[[sqlite3.Connection], Any]) -> None:
        self.body = body
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Keeps what it returns or raises: who waits for it stands on another thread."""
        try:
            self.value = self.body(connection)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self.error = error


class _Lost(Exception):
    """The transaction cannot be committed, through no fault of one savepoint."""


def read_alone(connection: sqlite3.Connection, work: Work) -> None:
    """Outside of any transaction of ours, and it cannot write."""
    try:
        connection.execute("PRAGMA query_only = ON")
        try:
            work.run(connection)
        finally:
            connection.execute("PRAGMA query_only = OFF")
    except sqlite3.Error as error:  # its own errors it keeps
        work.error = error


def write_together(
    connection: sqlite3.Connection, works: Sequence[Work], failpoint: Failpoint, is_fault: Callable[[BaseException], bool]
) -> None:
    """Run all of `works` and commit once. Where that fails nothing was done, and each has the error.

    `is_fault`: whether an error that one of them raised is the disk's, and so of them all: what the disk refused once it may
    have half done, and SQLite may have rolled back everything by itself. Source: sqlite.org/lang_transaction.html, "Response To
    Errors Within A Transaction".
    """
    try:
        failpoint(CommitPoint.BEGIN)
        connection.execute("BEGIN IMMEDIATE")
        for work in works:
            _run_saved(connection, work, is_fault)
        failpoint(CommitPoint.BEFORE_COMMIT)
        connection.execute("COMMIT")
        failpoint(CommitPoint.AFTER_COMMIT)
    except BaseException as error:  # noqa: BLE001 - raised again in each who waits
        cause = error.__cause__ if isinstance(error, _Lost) else error
        for work in works:
            work.error = cause
        _roll_back(connection)


def _run_saved(connection: sqlite3.Connection, work: Work, is_fault: Callable[[BaseException], bool]) -> None:
    connection.execute("SAVEPOINT one")
    work.run(connection)
    if work.error is not None and is_fault(work.error):
        raise _Lost from work.error
    if not connection.in_transaction:
        raise _Lost from RuntimeError(f"cannot commit what {work.body!r} has written: it has ended the transaction")
    if work.error is not None:
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with suppress(sqlite3.Error):  # then the next one finds it in the way, and says so
            connection.execute("ROLLBACK")
