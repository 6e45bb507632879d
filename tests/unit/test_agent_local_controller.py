"""The built-in controller: what users may rely on, and what it does with a database that is not what it was."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest

from spurproc.agent.controller.link import Acknowledged, Cancel, Dispatch, Nothing, RefusedForGood, Unreachable
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.ending import CancelAnswer, OtherAttempt, Requeued
from spurproc.agent.controller.local.history import JobFilter
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import RequeuePolicy
from spurproc.agent.store.transaction import CommitPoint
from spurproc.core.exit_info import ExitKind
from spurproc.errors import AlreadyGone, Busy, InvalidArgument, Unsupported
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, job_spec, node, report_of, wanting

Open = Callable[[], AbstractAsyncContextManager[tuple[LocalController, LocalLink]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller.db"


@pytest.fixture
def opened(path: Path) -> Open:
    @asynccontextmanager
    async def open_registered() -> AsyncIterator[tuple[LocalController, LocalLink]]:
        controller = await LocalController.open(path)
        link = LocalLink(controller)
        await link.register(node())
        try:
            yield controller, link
        finally:
            await controller.close()

    return open_registered


async def ran(controller: LocalController, link: LocalLink, code: int = 0, **more: object) -> AttemptId:
    """Submitted, dispatched and reported."""
    await controller.submit(wanting(1), submitted_by=0)
    order = await link.take_work(View())
    assert isinstance(order, Dispatch)
    assert await link.report(report_of(order.attempt, code, **more)) == Acknowledged()
    return order.attempt


def test_what_is_submitted_or_cancelled_is_an_order_without_another_look(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is a way to the thread of the database and back, and the job waits for it."""

    async def scene() -> None:
        async with opened() as (controller, link):
            assert await link.take_work(View()) == Nothing()
            looks: list[object] = []
            monkeypatch.setattr(controller._database, "read", looks.append)
            job = (await controller.submit(wanting(1), submitted_by=0)).job_id
            assert isinstance(await link.take_work(View()), Dispatch)
            assert await controller.cancel(job, uid=0) is CancelAnswer.ASKED
            view = View()
            view.held.add(AttemptId(job, 1))
            assert isinstance(await link.take_work(view), Cancel)
            assert looks == []

    asyncio.run(scene())


def test_a_key_means_one_job_of_one_submitter(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, _):
            one = await controller.submit(wanting(1), submitted_by=7, key="k")
            again = await controller.submit(wanting(1), submitted_by=7, key="k")
            assert (again.job_id, again.repeated, one.repeated) == (one.job_id, True, False)
            assert (await controller.submit(wanting(1), submitted_by=8, key="k")).job_id != one.job_id
            assert (await controller.submit(wanting(1), submitted_by=7)).job_id != one.job_id
            with pytest.raises(InvalidArgument, match=f"'k' was used for job {one.job_id}, which is another"):
                await controller.submit(wanting(2), submitted_by=7, key="k")
            for key in ("", "\n", "k" * 257):
                with pytest.raises(InvalidArgument, match="key"):
                    await controller.submit(wanting(1), submitted_by=7, key=key)
            together = await asyncio.gather(*(controller.submit(wanting(1), submitted_by=7, key="n") for _ in range(5)))
            assert len({one.job_id for one in together}) == 1
        async with opened() as (controller, _):
            assert (await controller.submit(wanting(1), submitted_by=7, key="k")).job_id == one.job_id

    asyncio.run(scene())


def test_what_never_fits_the_node_is_refused_and_nothing_before_it_is_known(path: Path) -> None:
    async def scene() -> None:
        controller = await LocalController.open(path)
        with pytest.raises(Busy, match="not registered"):
            await controller.submit(wanting(1), submitted_by=0)
        link = LocalLink(controller)
        await link.register(node())
        with pytest.raises(Unsupported, match="CPUs: 5 wanted"):
            await controller.submit(wanting(5), submitted_by=0)
        await link.register(node(totals=Inventory(cpus=tuple(range(8)))))
        job_id = (await controller.submit(wanting(5), submitted_by=0)).job_id
        assert await controller.stuck() is None
        await link.register(node())
        found = await controller.stuck()
        assert found is not None
        assert found[0].job_id == job_id
        assert [str(shortage) for shortage in found[1]] == ["CPUs: 5 wanted, 4 of 4 free"]
        await controller.cancel(job_id)
        assert await controller.stuck() is None
        await link.deregister()
        with pytest.raises(Busy):
            await controller.submit(wanting(1), submitted_by=0)
        await controller.close()

    asyncio.run(scene())


def test_no_id_is_given_that_a_step_folder_has(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, _):
            await controller.floor(41)
            await controller.floor(7)
            assert (await controller.submit(job_spec(), submitted_by=0)).job_id == 42
            await controller.floor(2**62)
            await controller.floor(2**63 - 1)
            assert (await controller.submit(job_spec(), submitted_by=0)).job_id == 2**62 + 1
            await controller._database.write(lambda store: store.execute("UPDATE counters SET next = ?", (2**63 - 1,)))
            with pytest.raises(Unsupported, match="the last job"):
                await controller.submit(job_spec(), submitted_by=0)
            for nonsense in (0, 2**63):
                with pytest.raises(InvalidArgument):
                    await controller.floor(nonsense)

    asyncio.run(scene())


def test_the_record_says_that_it_was_cancelled_and_how_it_ended(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, link):
            job_id = (await controller.submit(job_spec(), submitted_by=0)).job_id
            await link.take_work(View())
            assert await controller.cancel(job_id, uid=7, why="no need") is CancelAnswer.ASKED
            assert await controller.cancel(job_id, uid=8, why="nor me") is CancelAnswer.ASKED
            await link.report(report_of(AttemptId(job_id, 1), 0, cancelled=True))
            assert await controller.cancel(job_id) is CancelAnswer.OVER
            (record,) = await controller.attempts(job_id)
            assert record.cancel is not None
            assert (record.cancel.uid, record.cancel.why) == (7, "no need")
            assert record.report is not None
            assert record.report.end.succeeded
            queued = (await controller.submit(job_spec(), submitted_by=0)).job_id
            assert await controller.cancel(queued, run_attempt=2) is CancelAnswer.OTHER_ATTEMPT
            assert await controller.cancel(queued, run_attempt=1) is CancelAnswer.ENDED_IN_QUEUE
            (record,) = await controller.attempts(queued)
            assert record.report is not None
            assert record.report.end.kind is ExitKind.NOT_STARTED
            with pytest.raises(AlreadyGone):
                await controller.cancel(99)

    asyncio.run(scene())


def test_a_second_report_that_says_something_else_is_kept_beside_the_first(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, link):
            attempt = await ran(controller, link, 3)
            for code in (3, 4, 5):
                await link.report(report_of(attempt, code))
            (record,) = await controller.attempts(attempt.job_id)
            assert record.report is not None
            assert record.other_report is not None
            assert (record.report.end.code, record.other_report.end.code) == (3, 4)

    asyncio.run(scene())


def test_a_fault_of_the_node_puts_a_job_back_where_it_stood_a_few_times(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, link):
            job_id = (await controller.submit(job_spec(requeue=RequeuePolicy.ON_NODE_FAULT), submitted_by=0)).job_id
            await controller.submit(job_spec(), submitted_by=0)
            for attempt in range(1, 7):
                order = await link.take_work(View())
                assert isinstance(order, Dispatch)
                assert order.attempt == AttemptId(job_id, attempt), "before the one that was submitted after it"
                await link.report(report_of(order.attempt, 1, node_fault="the prolog failed"))
            assert (await controller.job(job_id)).state is JobState.ENDED

    asyncio.run(scene())


def test_of_two_that_put_back_one_attempt_the_second_does_nothing(opened: Open) -> None:
    """Who asked for another attempt than the one that counts by then is told so, however late it is told apart."""

    async def scene() -> None:
        async with opened() as (controller, link):
            attempt = await ran(controller, link)
            asked = [controller.requeue(attempt.job_id, run_attempt=1) for _ in range(2)]
            first, second = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(first, Requeued)
            assert isinstance(second, OtherAttempt)
            job = await controller.job(attempt.job_id)
            assert (job.run_attempt, job.requeue_wanted, job.state) == (2, False, JobState.QUEUED)

    asyncio.run(scene())


def test_who_waits_for_the_end_is_told_and_not_of_one_that_is_put_back(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, link), asyncio.timeout(60):
            attempt = await ran(controller, link)
            assert (await controller.ended(attempt.job_id)).state is JobState.ENDED
            await controller.requeue(attempt.job_id)
            waits = asyncio.ensure_future(controller.ended(attempt.job_id))
            await link.take_work(View())
            await controller.requeue(attempt.job_id)
            await link.report(report_of(AttemptId(attempt.job_id, 2)))
            assert not waits.done()
            await controller.cancel(attempt.job_id)
            assert (await waits).run_attempt == 3
            with pytest.raises(AlreadyGone):
                await controller.ended(99)
            waits = asyncio.ensure_future(controller.ended((await controller.submit(job_spec(), submitted_by=0)).job_id))
            await controller.job(attempt.job_id)
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            assert controller._ended == {}

    asyncio.run(scene())


def test_jobs_are_listed_by_user_and_state_a_page_at_a_time(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as (controller, link):
            await ran(controller, link)
            for uid in (7, 7, 8):
                await controller.submit(job_spec(uid=uid), submitted_by=0)
            listed = await controller.jobs()
            assert [job.job_id for job in listed] == [4, 3, 2, 1]
            assert [job.job_id for job in await controller.jobs(JobFilter(uid=7))] == [3, 2]
            assert [job.job_id for job in await controller.jobs(JobFilter(states=(JobState.ENDED,)))] == [1]
            assert [job.job_id for job in await controller.jobs(JobFilter(limit=2))] == [4, 3]
            assert [job.job_id for job in await controller.jobs(JobFilter(limit=2, before=3))] == [2, 1]
            assert await controller.jobs(JobFilter(limit=-1)) == ()

    asyncio.run(scene())


def test_what_has_run_counts_where_the_database_is_older_than_its_nodes(opened: Open, path: Path) -> None:
    async def before() -> None:
        async with opened() as (controller, link):
            for _ in range(3):
                await controller.submit(job_spec(), submitted_by=0)
            await link.take_work(View())

    async def after() -> None:
        async with opened() as (controller, link):
            seen = [AttemptId(1, 3), AttemptId(2, 1), AttemptId(9, 1)]
            assert await controller.take_over(seen) == (AttemptId(1, 3), AttemptId(2, 1))
            assert await controller.take_over(seen) == ()
            view = View()
            view.held = set(seen)
            order = await link.take_work(view)
            assert isinstance(order, Dispatch)
            assert order.attempt == AttemptId(3, 1), "what has run is not run again"
            assert await link.report(report_of(AttemptId(1, 3), 7)) == Acknowledged()
            assert isinstance(await link.report(report_of(AttemptId(1, 2), 7)), RefusedForGood)
            first, third = await controller.attempts(1)
            assert first.report is not None
            assert first.report.end.kind is ExitKind.UNKNOWN
            assert third.report is not None
            assert third.report.end.code == 7
            assert await link.report(report_of(AttemptId(2, 1), 8)) == Acknowledged()
            assert (await controller.submit(job_spec(), submitted_by=0)).job_id == 10

    asyncio.run(before())
    asyncio.run(after())


@pytest.mark.parametrize(("column", "dispatched"), [("request", False), ("spec", False), ("spec", True)])
def test_a_job_that_cannot_be_read_is_held_and_stops_no_other(opened: Open, path: Path, column: str, *, dispatched: bool) -> None:
    async def before() -> None:
        async with opened() as (controller, link):
            await controller.submit(wanting(1), submitted_by=0)
            await controller.submit(wanting(2), submitted_by=0)
            if dispatched:
                await link.take_work(View())

    async def after() -> None:
        async with opened() as (controller, link):
            order = await link.take_work(View())
            assert isinstance(order, Dispatch)
            assert order.attempt.job_id == 2
            record = (await controller.jobs())[-1]
            assert record == await controller.job(1)
            assert record.state is JobState.HELD
            assert "cannot read" in (record.held_because or "")
            assert await controller.cancel(1) is CancelAnswer.ENDED_IN_QUEUE

    asyncio.run(before())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE jobs SET {column} = ? WHERE job_id = 1", (b'{"of a later release": 1}',))
        connection.commit()
    asyncio.run(after())


def test_what_has_ended_is_not_held(opened: Open) -> None:
    """Whoever could not read it may say so when it has been cancelled meanwhile."""

    async def scene() -> None:
        async with opened() as (controller, _):
            await controller.submit(job_spec(), submitted_by=0)
            assert await controller.cancel(1) is CancelAnswer.ENDED_IN_QUEUE
            await controller._hold(1, "cannot be read")
            assert (await controller.job(1)).state is JobState.ENDED

    asyncio.run(scene())


def test_a_queue_that_cannot_write_is_out_of_reach(path: Path) -> None:
    failing: list[bool] = []

    def point(reached: CommitPoint) -> None:
        if failing and reached is CommitPoint.BEFORE_COMMIT:
            error = sqlite3.OperationalError("disk full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    async def scene() -> None:
        controller = await LocalController.open(path, failpoint=point)
        link = LocalLink(controller)
        await link.register(node())
        job_id = (await controller.submit(job_spec(), submitted_by=0)).job_id
        failing.append(True)
        for act in (link.take_work(View()), link.report(report_of(AttemptId(job_id, 1))), link.register(node())):
            with pytest.raises(Unreachable, match="No space left"):
                await act
        failing.clear()
        order = await link.take_work(View())
        assert isinstance(order, Dispatch)
        failing.append(True)
        with pytest.raises(Unreachable):
            await link.report(report_of(order.attempt, 5))
        failing.clear()
        assert (await controller.job(job_id)).state is JobState.DISPATCHED
        assert await link.report(report_of(order.attempt, 6)) == Acknowledged()
        (record,) = await controller.attempts(job_id)
        assert record.report is not None
        assert record.report.end.code == 6
        view = View()
        assert await link.take_work(view) == Nothing()
        await controller.close()

    asyncio.run(scene())


def test_a_long_history_slows_no_queue(opened: Open, path: Path) -> None:
    """What is asked for each job is found by an index, however many have ended."""

    async def made() -> None:
        async with opened():
            pass

    asyncio.run(made())
    hot = (
        ("SELECT job_id FROM jobs WHERE state = 'queued' ORDER BY place LIMIT 1", "jobs_queued"),
        ("SELECT job_id FROM jobs WHERE state = 'dispatched' ORDER BY place", "jobs_dispatched"),
        ("SELECT job_id FROM jobs JOIN attempts USING (job_id, run_attempt) WHERE state = 'dispatched'", "jobs_dispatched"),
        ("SELECT job_id FROM jobs WHERE submitted_by = 1 AND submission_key = 'k'", "jobs_by_key"),
        ("SELECT job_id FROM jobs WHERE uid = 7 AND state IN ('ended') ORDER BY job_id DESC", "jobs_by_uid"),
    )
    with closing(sqlite3.connect(path)) as connection:
        for query, index in hot:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            assert index in str(plan)
