"""What is remembered of attempts of which nothing is owed any more."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from spurproc.agent.attempts import finished as memory
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.finished import Finished
from spurproc.agent.controller.link import Acknowledged, AttemptReport
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store import attempts, finished
from spurproc.agent.store.database import Database
from spurproc.agent.store.file import open_connection
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.errors import AlreadyGone
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode
from tests.agent_around import surroundings
from tests.agent_values import job_spec, report_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_connection(f"{tmp_path}/agent.db", AGENT_SCHEMA)) as connection:
        yield connection


def _remember(connection: sqlite3.Connection, attempt: AttemptId, code: int) -> None:
    finished.remember(connection, attempt, encode(report_of(attempt, code)))


def test_of_each_job_the_latest_is_kept(store: sqlite3.Connection) -> None:
    for run_attempt, code in ((1, 0), (3, 5), (2, 0), (3, 6)):
        _remember(store, AttemptId(1, run_attempt), code)
    assert finished.load_finished(store) == {1: 3}
    assert finished.report_of(store, AttemptId(1, 3), job_spec()) == encode(report_of(AttemptId(1, 3), 6))
    with pytest.raises(AlreadyGone, match=r"1\.2"):
        finished.report_of(store, AttemptId(1, 2), job_spec())


def test_another_job_by_the_same_name_is_not_told_how_the_first_one_ended(store: sqlite3.Connection) -> None:
    """As of a controller that has begun to count anew."""
    attempt, spec = AttemptId(1, 1), job_spec(limits={7: (9, 9), 0: (5, 5)})
    attempts.accept(store, attempt, spec, Allocation(cpus=(1,), memory_bytes=5), at=1.0)
    _remember(store, attempt, 0)
    assert finished.report_of(store, attempt, spec) == encode(report_of(attempt, 0))
    with pytest.raises(AlreadyGone, match="another job"):
        finished.report_of(store, attempt, job_spec(limits={0: (5, 5)}))


def test_those_that_were_over_last_are_kept(store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (finished, memory):
        monkeypatch.setattr(module, "JOBS_KEPT", 3)
    known = Finished(surroundings(), lambda *_: None)
    for job, run_attempt in ((1, 1), (2, 1), (3, 1), (1, 2), (4, 1)):
        _remember(store, AttemptId(job, run_attempt), 0)
        known.add(AttemptId(job, run_attempt))
    assert list(finished.load_finished(store).items()) == [(3, 1), (1, 2), (4, 1)]
    assert [job for job in range(1, 6) if known.covers(AttemptId(job, 1))] == [1, 3, 4]
    assert known.covers(AttemptId(1, 2))
    assert not known.covers(AttemptId(1, 3))
    assert [known.last_job(most) for most in (9, 3, 0)] == [4, 3, 0]


class _Link:
    """Takes each report."""

    def __init__(self) -> None:
        self.told: list[AttemptReport] = []

    async def report(self, report: AttemptReport) -> Acknowledged:
        self.told.append(report)
        return Acknowledged()


def test_it_is_told_as_often_as_it_is_asked_and_ever_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be read is told as unknown, and never run."""
    pauses: list[float] = []
    monkeypatch.setattr(memory, "BackOff", lambda: BackOff(first_s=1, last_s=2, chance=lambda: 1.0))
    link = _Link()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def scene() -> None:
        tasks: list[asyncio.Task[None]] = []

        def spawn(attempt: Attempt, work: Callable[[Attempt], Awaitable[None]]) -> None:
            tasks.append(asyncio.ensure_future(work(attempt)))

        database = Database.open(tmp_path / "agent.db", AGENT_SCHEMA)
        await database.write(lambda connection: _remember(connection, AttemptId(1, 2), 7))
        known = Finished(surroundings(database=database, link=link), spawn)
        await known.load()
        for attempt in [AttemptId(1, 2)] * 4 + [AttemptId(1, 1)]:
            known.tell_again(attempt, job_spec())
            assert known.is_answering(attempt)
            await tasks[-1]
            assert not known.is_answering(attempt)
        await database.write(lambda connection: connection.execute("UPDATE finished SET report = x'00'"))
        known.tell_again(AttemptId(1, 2), job_spec())
        await tasks[-1]
        await database.close()

    monkeypatch.setattr(asyncio, "sleep", pause)
    asyncio.run(scene())
    assert pauses == [1, 2, 2, 2]
    assert link.told[:4] == [report_of(AttemptId(1, 2), 7)] * 4
    assert [str(one.end).split(":")[0] for one in link.told[4:]] == ["unknown", "unknown"]
