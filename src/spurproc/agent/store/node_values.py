"""What the agent knows of its node from one life to the next. Each function is the body of one transaction of its store."""

from __future__ import annotations

import enum
import sqlite3

from spurproc.errors import RecordInvalid

__all__ = ["NodeValue", "count_report", "read_reports", "read_value", "write_reports", "write_value"]

_DIGITS = 18


class NodeValue(enum.Enum):
    """What there is. Each is one record, in the codec of whoever owns it."""

    ACCEPTED_INVENTORY = "accepted inventory"
    """What was last found twice alike and taken over: what resources are given from."""
    HELD_BACK = "GPUs held back"
    """Those that something still uses though their job has ended."""
    REPORTS = "reports"
    """Of how many attempts the report was taken, as a decimal number."""


def write_value(connection: sqlite3.Connection, name: NodeValue, value: bytes, *, at: float) -> None:
    """In the place of the one before."""
    connection.execute(
        "INSERT INTO node_values (name, value, since) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value, since = excluded.since",
        (name.value, value, at),
    )


def read_value(connection: sqlite3.Connection, name: NodeValue) -> bytes | None:
    """None before it was written once."""
    fields = connection.execute("SELECT value FROM node_values WHERE name = ?", (name.value,)).fetchone()
    if fields is None or isinstance(fields[0], bytes):
        return None if fields is None else fields[0]
    return str(fields[0]).encode()  # whoever reads it says what is wrong with it


def read_reports(connection: sqlite3.Connection) -> int:
    """Of how many attempts the report was taken. Raises RecordInvalid."""
    value = read_value(connection, NodeValue.REPORTS)
    if value is not None and not (value.isdigit() and len(value) <= _DIGITS):
        raise RecordInvalid("the agent's store, reports", f"{value!r:.60} is no number")
    return int(value or b"0")


def write_reports(connection: sqlite3.Connection, reports: int, *, at: float) -> None:
    """It is that many."""
    write_value(connection, NodeValue.REPORTS, b"%d" % reports, at=at)


def count_report(connection: sqlite3.Connection, *, at: float) -> None:
    """One more."""
    write_reports(connection, read_reports(connection) + 1, at=at)
