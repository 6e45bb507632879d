"""The agent's databases: one commit for all who wait, each undone alone, nothing told that is not done."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from spurproc.agent.store.database import Database
from spurproc.agent.store.file import Schema
from spurproc.agent.store.transaction import CommitPoint
from spurproc.errors import InvalidArgument, NotPermitted, RecordInvalid, RecordTooNew, SystemCallError

SCHEMA = Schema(application_id=0x7465_7374, scripts=("CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER)",))
NEXT = Schema(application_id=SCHEMA.application_id, scripts=(*SCHEMA.scripts, "ALTER TABLE facts ADD COLUMN more TEXT"))


def put(connection: sqlite3.Connection, name: str, value: int = 1) -> int:
    connection.execute("INSERT INTO facts VALUES (?, ?)", (name, value))
    return value


def names(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM facts ORDER BY name")]


def stored(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return names(connection)


class Gate:
    """Stands in the commit until it is opened, and counts."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.points: list[CommitPoint] = []

    def __call__(self, point: CommitPoint) -> None:
        """On the database's thread."""
        self.points.append(point)
        self.reached.set()
        assert self.opened.wait(30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def test_what_was_written_is_there_for_the_next(path: Path) -> None:
    async def scene() -> None:
        database = Database.open(path, SCHEMA)
        assert await database.write(lambda connection: put(connection, "one", 7)) == 7
        assert await database.read(names) == ["one"]
        await database.close()
        await database.close()
        with pytest.raises(InvalidArgument, match="closed"):
            await database.read(names)

    asyncio.run(scene())
    assert stored(path) == ["one"]
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_all_that_wait_share_one_commit(path: Path) -> None:
    async def scene() -> None:
        gate = Gate()
        database = Database.open(path, SCHEMA, failpoint=gate)
        first = asyncio.ensure_future(database.write(lambda connection: put(connection, "first")))
        await asyncio.to_thread(gate.reached.wait, 30)
        others = [
            asyncio.ensure_future(database.write(lambda connection, name=f"{number:02}": put(connection, name)))  # type: ignore[misc]
            for number in range(50)
        ]
        await asyncio.sleep(0)  # each has run up to where it waits
        gate.opened.set()
        await asyncio.gather(first, *others)
        assert gate.points == [*CommitPoint, *CommitPoint]
        await database.close()

    asyncio.run(scene())
    assert len(stored(path)) == 51


def test_what_nobody_waits_for_goes_with_the_next_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        gate = Gate()
        gate.opened.set()
        database = Database.open(path, SCHEMA, failpoint=gate)
        patient = asyncio.ensure_future(database.write(lambda connection: put(connection, "patient"), urgent=False))
        await asyncio.sleep(0)
        assert not await asyncio.to_thread(gate.reached.wait, 0.2)
        await database.write(lambda connection: put(connection, "urgent"))
        assert await patient == 1
        assert gate.points == [*CommitPoint]
        await database.close()

    monkeypatch.setattr("spurproc.agent.store.database._PATIENT_S", 600.0)
    asyncio.run(scene())
    assert stored(path) == ["patient", "urgent"]


def test_what_nobody_waits_for_is_written_though_nobody_comes(path: Path) -> None:
    async def scene() -> None:
        database = Database.open(path, SCHEMA)
        await database.write(lambda connection: put(connection, "alone"), urgent=False)
        assert stored(path) == ["alone"]
        last = asyncio.ensure_future(database.write(lambda connection: put(connection, "last"), urgent=False))
        await asyncio.sleep(0)
        await database.close()
        await last

    asyncio.run(scene())
    assert stored(path) == ["alone", "last"]


def test_one_that_raises_undoes_itself_only(path: Path) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        put(connection, "undone")
        raise ZeroDivisionError

    async def scene() -> None:
        gate = Gate()
        database = Database.open(path, SCHEMA, failpoint=gate)
        writes = [
            database.write(lambda connection: put(connection, "before")),
            database.write(fails),
            database.write(lambda connection: put(connection, "before")),
            database.write(lambda connection: next(iter(()))),
            database.write(lambda connection: put(connection, "after")),
        ]
        together = asyncio.gather(*writes, return_exceptions=True)
        await asyncio.to_thread(gate.reached.wait, 30)
        gate.opened.set()
        one, undone, twice, stopped, after = await together
        assert (one, after) == (1, 1)
        assert isinstance(undone, ZeroDivisionError)
        assert isinstance(twice, sqlite3.IntegrityError)
        assert isinstance(stopped, RuntimeError)
        await database.close()

    asyncio.run(scene())
    assert stored(path) == ["after", "before"]


def test_a_commit_that_fails_is_told_to_all_and_the_next_one_works(path: Path) -> None:
    def point(reached: CommitPoint) -> None:
        if reached is CommitPoint.BEFORE_COMMIT and failing:
            failing.pop()
            raise OSError(5, "no")

    failing = [True]

    async def scene() -> None:
        database = Database.open(path, SCHEMA, failpoint=point)
        with pytest.raises(OSError, match="no"):
            await database.write(lambda connection: put(connection, "lost"))
        await database.write(lambda connection: put(connection, "kept"))
        await database.close()

    asyncio.run(scene())
    assert stored(path) == ["kept"]


def test_one_that_ends_the_transaction_is_a_fault_of_all(path: Path) -> None:
    async def scene() -> None:
        database = Database.open(path, SCHEMA)
        with pytest.raises(RuntimeError, match="ended the transaction"):
            await database.write(lambda connection: connection.execute("ROLLBACK"))
        await database.write(lambda connection: put(connection, "kept"))
        await database.close()

    asyncio.run(scene())
    assert stored(path) == ["kept"]


def test_a_reader_cannot_write_and_sees_only_what_is_durable(path: Path) -> None:
    async def scene() -> None:
        gate = Gate()
        database = Database.open(path, SCHEMA, failpoint=gate)
        write = asyncio.ensure_future(database.write(lambda connection: put(connection, "one")))
        await asyncio.to_thread(gate.reached.wait, 30)
        read = asyncio.ensure_future(database.read(names))
        gate.opened.set()
        await write
        assert await read == ["one"]
        with pytest.raises(SystemCallError, match="readonly"):
            await database.read(lambda connection: put(connection, "two"))
        await database.write(lambda connection: put(connection, "three"))
        await database.close()

    asyncio.run(scene())
    assert stored(path) == ["one", "three"]


def test_an_error_that_nobody_has_thought_of_is_told_and_the_next_one_is_served(path: Path) -> None:
    """Of the statements around a read, that is: those of a body are its own."""

    def deny(connection: sqlite3.Connection) -> None:
        connection.set_authorizer(lambda act, *_: sqlite3.SQLITE_DENY if act == sqlite3.SQLITE_PRAGMA else sqlite3.SQLITE_OK)

    async def scene() -> None:
        database = Database.open(path, SCHEMA)
        await database.write(deny)
        async with asyncio.timeout(30):
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                await database.read(names)
            await database.write(lambda connection: connection.set_authorizer(None))
            await database.write(lambda connection: put(connection, "one"))
            assert await database.read(names) == ["one"]
        await database.close()

    asyncio.run(scene())


def test_close_waits_for_what_was_accepted(path: Path) -> None:
    async def scene() -> None:
        gate = Gate()
        database = Database.open(path, SCHEMA, failpoint=gate)
        writes = [
            asyncio.ensure_future(database.write(lambda connection, name=name: put(connection, name)))  # type: ignore[misc]
            for name in ("one", "two")
        ]
        await asyncio.to_thread(gate.reached.wait, 30)
        close = asyncio.ensure_future(database.close())
        await asyncio.to_thread(lambda: None)
        assert not close.done()
        gate.opened.set()
        await close
        assert [await write for write in writes] == [1, 1]

    asyncio.run(scene())
    assert stored(path) == ["one", "two"]


def test_a_thread_that_waits_is_answered_as_a_loop_is(path: Path) -> None:
    """Without a turn of the loop, which may be busy; and behind the close it is not left waiting."""
    database = Database.open(path, SCHEMA)
    assert database.write_and_wait(lambda connection: put(connection, "one", 7)) == 7
    assert stored(path) == ["one"]
    with pytest.raises(sqlite3.IntegrityError):
        database.write_and_wait(lambda connection: put(connection, "one"))
    asyncio.run(database.close())
    with pytest.raises(InvalidArgument, match="closed"):
        database.write_and_wait(lambda connection: put(connection, "two"))
    assert stored(path) == ["one"]


def test_who_is_cancelled_hinders_nobody(path: Path) -> None:
    async def scene() -> None:
        gate = Gate()
        database = Database.open(path, SCHEMA, failpoint=gate)
        one = asyncio.ensure_future(database.write(lambda connection: put(connection, "one")))
        await asyncio.to_thread(gate.reached.wait, 30)
        two, three = (
            asyncio.ensure_future(database.write(lambda connection, name=name: put(connection, name)))  # type: ignore[misc]
            for name in ("two", "three")
        )
        await asyncio.sleep(0)
        one.cancel()
        two.cancel()
        gate.opened.set()
        async with asyncio.timeout(60):
            assert await three == 1
        await database.close()

    asyncio.run(scene())
    assert stored(path) == ["one", "three", "two"]


# The file.


def opened(path: Path, schema: Schema = SCHEMA) -> None:
    async def scene() -> None:
        await Database.open(path, schema).close()

    asyncio.run(scene())


def test_an_older_one_is_brought_up_to_date_and_a_newer_one_refused_by_its_number(path: Path) -> None:
    opened(path)
    with closing(sqlite3.connect(path)) as connection:
        put(connection, "one")
        connection.commit()
    opened(path, NEXT)
    assert stored(path) == ["one"]
    before = path.read_bytes()
    with pytest.raises(RecordTooNew, match="version is 2"):
        opened(path)
    assert path.read_bytes() == before
    opened(path, NEXT)


def test_a_version_is_made_whole_or_not_at_all(path: Path) -> None:
    opened(path)
    broken = Schema(
        application_id=SCHEMA.application_id, scripts=(*SCHEMA.scripts, "CREATE TABLE half (x); CREATE TABLE facts (y)")
    )
    with pytest.raises(sqlite3.OperationalError):
        opened(path, broken)
    opened(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("facts",)]


def test_what_is_no_database_of_ours_is_refused(path: Path) -> None:
    path.touch(mode=0o600)
    opened(path)
    with pytest.raises(RecordInvalid, match="something else"):
        opened(path, Schema(application_id=5, scripts=SCHEMA.scripts))
    other = path.with_name("other.db")
    other.touch(mode=0o600)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(RecordInvalid, match="no version"):
        opened(other)
    for name, content in (("text.db", b"no database" * 500), ("torn.db", path.read_bytes()[:2000])):
        damaged = path.with_name(name)
        damaged.touch(mode=0o600)
        damaged.write_bytes(content)
        with pytest.raises(RecordInvalid):
            opened(damaged)


@pytest.mark.parametrize("companion", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("what", ["symlink", "hard link", "FIFO", "folder", "readable"])
def test_what_was_planted_is_refused_and_left_alone(path: Path, what: str, companion: str) -> None:
    planted, victim = Path(f"{path}{companion}"), path.with_name("victim")
    victim.write_bytes(b"")
    victim.chmod(0o600)
    make = {
        "symlink": lambda: planted.symlink_to(victim),
        "hard link": lambda: planted.hardlink_to(victim),
        "FIFO": lambda: os.mkfifo(planted, 0o600),
        "folder": lambda: planted.mkdir(0o700),
        "readable": lambda: planted.touch(0o644),
    }
    make[what]()
    with pytest.raises(NotPermitted, match="cannot trust"):
        opened(path)
    assert victim.read_bytes() == b""


@pytest.mark.needs_root
def test_what_belongs_to_another_is_refused(path: Path) -> None:
    opened(path)
    os.chown(path, 12345, 12345)
    with pytest.raises(NotPermitted, match="user 12345"):
        opened(path)
    os.chown(path, 0, 0)
    os.chown(path.parent, 12345, 12345)
    with pytest.raises(NotPermitted, match="folder of ours"):
        opened(path)
    os.chown(path.parent, 0, 0)


def test_a_folder_that_others_may_write_is_refused(path: Path) -> None:
    path.parent.chmod(0o1777)
    with pytest.raises(NotPermitted, match="folder of ours"):
        opened(path)


def test_a_fault_of_the_disk_under_one_is_told_to_all_that_shared_its_commit(path: Path) -> None:
    """SQLite may have rolled back everything by then, and what it has not is not to be trusted."""

    def refused(connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    async def scene() -> None:
        gate = Gate()
        database = Database.open(path, SCHEMA, failpoint=gate)
        first = asyncio.ensure_future(database.write(lambda connection: put(connection, "first")))
        await asyncio.to_thread(gate.reached.wait, 30)
        bodies = [lambda connection: put(connection, "lost"), refused, names]
        writes = [asyncio.ensure_future(database.write(body)) for body in bodies]
        await asyncio.sleep(0)  # each has run up to where it waits
        gate.opened.set()
        await first
        errors = await asyncio.gather(*writes, return_exceptions=True)
        assert [getattr(error, "errno", None) for error in errors] == [errno.ENOSPC] * 3
        assert len({id(error) for error in errors}) == 3, "each its own: an exception is raised once"
        await database.write(lambda connection: put(connection, "kept"))
        await database.close()

    asyncio.run(scene())
    assert stored(path) == ["first", "kept"]
