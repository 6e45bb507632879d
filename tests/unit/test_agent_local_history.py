"""What the built-in controller still knows after a restart, and in which order it goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spurproc.agent.controller.link import Acknowledged, Cancel, Dispatch, Nothing, RefusedForGood
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.jobs.job_spec import RequeuePolicy
from spurproc.errors import AlreadyGone
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, job_spec, node, report_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller.db"


async def started(path: Path) -> tuple[LocalController, LocalLink]:
    controller = await LocalController.open(path)
    link = LocalLink(controller)
    await link.register(node())
    return controller, link


async def dispatched(link: LocalLink, view: View) -> AttemptId:
    order = await link.take_work(view)
    assert isinstance(order, Dispatch)
    view.held.add(order.attempt)
    return order.attempt


def test_orders_that_the_node_has_not_shown_outlast_a_restart(path: Path) -> None:
    async def scene() -> None:
        controller, link = await started(path)
        view = View()
        job_id = (await controller.submit(job_spec(), submitted_by=0)).job_id
        attempt = await dispatched(link, view)
        await controller.cancel(job_id, uid=7, why="no need")
        await controller.close()
        controller, link = await started(path)
        assert await link.take_work(view) == Cancel(attempt=attempt, uid=7, why="no need")
        forgetful = View()
        order = await link.take_work(forgetful)
        assert order == Cancel(attempt=attempt, uid=7, why="no need"), "it was held a moment ago"
        other = (await controller.submit(job_spec(), submitted_by=0)).job_id
        await link.report(report_of(attempt))
        assert (await dispatched(link, view)).job_id == other
        await controller.close()
        controller, link = await started(path)
        order = await link.take_work(forgetful)
        assert isinstance(order, Dispatch)
        assert order.attempt.job_id == other
        await controller.close()

    asyncio.run(scene())


def test_a_requeued_job_stands_behind_all_that_wait(path: Path) -> None:
    async def scene() -> None:
        controller, link = await started(path)
        view = View()
        for _ in range(2):
            await controller.submit(job_spec(), submitted_by=0)
        first = await dispatched(link, view)
        await link.report(report_of(first))
        await controller.requeue(first.job_id)
        assert [await dispatched(link, view) for _ in range(2)] == [AttemptId(2, 1), AttemptId(1, 2)]
        assert await link.take_work(view) == Nothing()
        await controller.close()

    asyncio.run(scene())


def test_who_waits_is_told_of_an_end_that_is_reported(path: Path) -> None:
    async def scene() -> None:
        controller, link = await started(path)
        job_id = (await controller.submit(job_spec(), submitted_by=0)).job_id
        attempt = await dispatched(link, View())
        waits = [asyncio.ensure_future(controller.ended(job_id)) for _ in range(2)]
        await controller.job(job_id)  # each of them has looked by now, and waits
        await link.report(report_of(attempt))
        async with asyncio.timeout(60):
            assert [(await one).state for one in waits] == [JobState.ENDED] * 2
        await controller.close()

    asyncio.run(scene())


def test_a_report_of_an_attempt_that_counts_no_more_ends_nothing(path: Path) -> None:
    """Built by hand: an attempt without an end before the one that counts, as no history of ours has it."""

    async def before() -> None:
        controller, link = await started(path)
        await controller.submit(job_spec(), submitted_by=0)
        await dispatched(link, View())
        await controller.close()

    async def after() -> None:
        controller, link = await started(path)
        assert isinstance(await link.report(report_of(AttemptId(1, 1))), RefusedForGood)
        assert (await controller.job(1)).state is JobState.DISPATCHED
        await controller.close()

    asyncio.run(before())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE jobs SET run_attempt = 2")
        connection.commit()
    asyncio.run(after())


def _damage(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount == 1


def test_a_wish_to_end_that_cannot_be_read_is_one_all_the_same(path: Path) -> None:
    """Its node is told, and it is not run again for a fault of that."""

    async def before() -> None:
        controller, link = await started(path)
        await controller.submit(job_spec(requeue=RequeuePolicy.ON_NODE_FAULT), submitted_by=0)
        await dispatched(link, View())
        await controller.cancel(1, uid=7, why="no need")
        await controller.close()

    async def after() -> None:
        controller, link = await started(path)
        view = View()
        view.held.add(AttemptId(1, 1))
        order = await link.take_work(view)
        assert isinstance(order, Cancel)
        assert order.uid is None
        assert "attempt 1.1, cancel" in order.why
        await link.report(report_of(AttemptId(1, 1), node_fault="its launch was cut short"))
        assert (await controller.job(1)).state is JobState.ENDED
        await controller.close()

    asyncio.run(before())
    _damage(path, "UPDATE attempts SET cancel = x'00'")
    asyncio.run(after())


def test_a_report_that_cannot_be_read_hides_nothing_else_and_is_taken_when_it_is_said_again(path: Path) -> None:
    async def before() -> None:
        controller, link = await started(path)
        view = View()
        for _ in range(2):
            await controller.submit(job_spec(), submitted_by=0)
            await link.report(report_of(await dispatched(link, view)))
        await controller.close()

    async def after() -> None:
        controller, link = await started(path)
        first, second = sorted(await controller.jobs(), key=lambda one: one.job_id)
        assert (first.damaged, second.uid, second.submitted_at) == (None, 0, 0.0)
        assert "job 2, uid" in (second.damaged or "")
        assert "job 2, submitted_at" in (second.damaged or "")
        (told,) = await controller.attempts(1)
        assert (told.report, told.reported, list(told.damage)) == (None, True, ["dispatched_at", "report"])
        assert await link.report(report_of(AttemptId(1, 1))) == Acknowledged()
        (told,) = await controller.attempts(1)
        assert (told.report, told.other_report) == (report_of(AttemptId(1, 1)), None)
        await controller.close()

    asyncio.run(before())
    _damage(
        path,
        "UPDATE attempts SET report = x'00', dispatched_at = 'then' WHERE job_id = 1",
        "UPDATE jobs SET uid = 'ann', submitted_at = 'now' WHERE job_id = 2",
    )
    asyncio.run(after())


def test_what_is_far_back_and_has_ended_long_ago_is_forgotten_a_little_with_each_report(path: Path) -> None:
    """Not what has not ended, nor what ended today; no id is given again."""
    now_s = 0.0

    async def scene() -> None:
        nonlocal now_s
        controller = await LocalController.open(path, clock=lambda: now_s, history_jobs=3)
        link, view = LocalLink(controller), View()
        await link.register(node())
        for _ in range(12):
            await controller.submit(job_spec(), submitted_by=0)
        attempts = [await dispatched(link, view) for _ in range(12)]
        for attempt in attempts[1:9]:
            await link.report(report_of(attempt))
        now_s = 86400.0 - 1
        await link.report(report_of(attempts[9]))
        assert len(await controller.jobs()) == 12
        now_s = 86400.0
        await link.report(report_of(attempts[10]))
        assert [job.job_id for job in await controller.jobs()] == [12, 11, 10, 9, 8, 7, 6, 1]
        await link.report(report_of(attempts[11]))
        assert [job.job_id for job in await controller.jobs()] == [12, 11, 10, 1]
        with pytest.raises(AlreadyGone):
            await controller.attempts(2) or await controller.job(2)
        assert (await controller.submit(job_spec(), submitted_by=0)).job_id == 13
        await controller.close()

    asyncio.run(scene())
