"""A database whose process is killed, or whose disk is full: what was told as done is there, and nothing is there by half."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from spurproc.agent.store.database import Database
from spurproc.agent.store.file import Schema
from spurproc.agent.store.transaction import CommitPoint
from spurproc.errors import SystemCallError
from tests.pidfds import open_pidfd

SCHEMA = Schema(application_id=1, scripts=("CREATE TABLE facts (number INTEGER PRIMARY KEY, pair INTEGER, padding BLOB)",))

# argv: the database, the point to stand still at ("": none). Each fact is two rows; each that was told as done is said by a line.
_WRITER = """
import asyncio, sys, threading
from spurproc.agent.store.database import Database
from spurproc.agent.store.transaction import CommitPoint
from tests.kernel.test_agent_database_crash import SCHEMA, put
path, still = sys.argv[1:]

def point(reached):
    if reached.value == still and started:
        print("still", flush=True)
        threading.Event().wait()

async def writer(database, first):
    for number in range(first, 1 << 20, 8):
        await database.write(lambda connection: put(connection, number))
        print(number, flush=True)

async def main():
    database = Database.open(path, SCHEMA, failpoint=point)
    await database.write(lambda connection: put(connection, 0))
    print(0, flush=True)
    started.append(True)
    await asyncio.gather(*(writer(database, first) for first in range(1, 9)))

started = []
asyncio.run(main())
"""


def put(connection: sqlite3.Connection, number: int, padding_bytes: int = 200) -> None:
    """One fact, in two rows that are true together."""
    for row in (2 * number, 2 * number + 1):
        connection.execute("INSERT INTO facts VALUES (?, ?, ?)", (row, number, bytes(padding_bytes)))


def facts(path: Path) -> set[int]:
    """Those that are there, each whole."""
    with closing(sqlite3.connect(path)) as connection:
        counts = dict(connection.execute("SELECT pair, count(*) FROM facts GROUP BY pair"))
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert set(counts.values()) <= {2}
    return set(counts)


def killed(path: Path, *, after: int, still: str = "") -> list[bytes]:
    """All lines of a process that writes, killed once it has said so many."""
    command = [sys.executable, "-c", _WRITER, str(path), still]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        pidfd = open_pidfd(process.pid)
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(after)]
        finally:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        return [*lines, *process.stdout]


@pytest.mark.parametrize("point", list(CommitPoint), ids=lambda point: point.name)
def test_killed_at_a_commit_all_of_it_is_there_or_nothing(tmp_path: Path, point: CommitPoint) -> None:
    path = tmp_path / "agent.db"
    assert killed(path, after=2, still=point.value) == [b"0\n", b"still\n"]
    if point is CommitPoint.AFTER_COMMIT:
        assert facts(path) in ({0, 1}, set(range(9))), "of the first that waits, or of all"
    else:
        assert facts(path) == {0}


@pytest.mark.parametrize("after", [1, 2, 50, 500])
def test_killed_at_any_moment_what_was_told_as_done_is_there(tmp_path: Path, after: int) -> None:
    path = tmp_path / "agent.db"
    told = {int(line) for line in killed(path, after=after)}
    found = facts(path)
    assert told <= found
    assert len(found) <= len(told) + 2 * 8, "and what each writer was at, or was not told of"

    async def goes_on() -> None:
        database = Database.open(path, SCHEMA)
        await database.write(lambda connection: put(connection, 1 << 21))
        await database.close()

    asyncio.run(goes_on())
    assert facts(path) == found | {1 << 21}


@pytest.mark.needs_root
@pytest.mark.own_pid_namespace(mount=True)
def test_on_a_full_disk_nothing_is_told_as_done_and_room_is_enough_to_go_on(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", disk], check=True)
    path, filler = disk / "agent.db", disk / "filler"

    async def scene() -> set[int]:
        database = Database.open(path, SCHEMA)
        done: set[int] = set()

        async def write(number: int, padding_bytes: int) -> int:
            await database.write(lambda connection: put(connection, number, padding_bytes))
            done.add(number)
            return number

        await write(0, 10)
        _fill(filler)
        refused = await asyncio.gather(*(write(number, 9000) for number in range(1, 30)), return_exceptions=True)
        for error in refused:
            assert isinstance(error, SystemCallError)
            assert error.errno == errno.ENOSPC
            assert "agent.db" in str(error)
        assert await database.read(_count) == 2
        filler.unlink()
        assert await write(30, 9000) == 30
        await database.close()
        return done

    assert asyncio.run(scene()) == {0, 30}
    assert facts(path) == {0, 30}


def _fill(filler: Path) -> None:
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM facts").fetchone()[0])
