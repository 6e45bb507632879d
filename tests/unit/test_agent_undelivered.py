"""What the built-in controller has dispatched and its node has not got, for somebody was quicker, or it ended in between."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from spurproc.agent.controller.link import Acknowledged, Cancel, Dispatch, Nothing, Unreachable
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.store.mark import Mark
from spurproc.core.exit_info import ExitKind
from spurproc.errors import SystemCallError
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, node, report_of, wanting

Open = Callable[[], AbstractAsyncContextManager[tuple[LocalController, LocalLink]]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    @asynccontextmanager
    async def open_registered() -> AsyncIterator[tuple[LocalController, LocalLink]]:
        controller = await LocalController.open(tmp_path / "controller.db")
        link = LocalLink(controller)
        await link.register(node())
        try:
            yield controller, link
        finally:
            await controller.close()

    return open_registered


async def dispatched(controller: LocalController, link: LocalLink, view: View) -> AttemptId:
    """A job, held by the node."""
    await controller.submit(wanting(1), submitted_by=0)
    order = await link.take_work(view)
    assert isinstance(order, Dispatch)
    view.held.add(order.attempt)
    return order.attempt


def test_what_the_node_never_got_goes_back_into_the_queue_and_keeps_nobody_from_ending(opened: Open) -> None:
    """Somebody was quicker: what it was to have is taken."""

    async def scene() -> None:
        async with opened() as (controller, link):
            view = View(free_cpus=4)
            first, second = await dispatched(controller, link, view), await dispatched(controller, link, view)
            view.held.discard(second)
            view.free_cpus = 0
            await controller.cancel(first.job_id)
            order = await link.take_work(view)
            assert isinstance(order, Cancel)
            assert order.attempt == first
            view.ending.add(first)
            assert await link.take_work(view) == Nothing()
            assert (await controller.job(second.job_id)).state is JobState.QUEUED
            assert await controller.attempts(second.job_id) == ()
            view.free_cpus = 4
            order = await link.take_work(view)
            assert isinstance(order, Dispatch)
            assert order.attempt == second

    asyncio.run(scene())


@pytest.mark.parametrize("again", [False, True])
def test_what_the_node_never_got_and_is_to_end_never_runs(opened: Open, *, again: bool) -> None:
    async def scene() -> None:
        async with opened() as (controller, link):
            attempt = await dispatched(controller, link, View())
            await (controller.requeue if again else controller.cancel)(attempt.job_id)
            order = await link.take_work(View())
            (record, *_) = await controller.attempts(attempt.job_id)
            assert record.report is not None
            assert record.report.end.kind is ExitKind.NOT_STARTED
            if again:
                assert isinstance(order, Dispatch)
                assert order.attempt == AttemptId(attempt.job_id, 2)
            else:
                assert order == Nothing()
                assert (await controller.job(attempt.job_id)).state is JobState.ENDED

    asyncio.run(scene())


def test_who_cancels_again_is_heard_again(opened: Open) -> None:
    """Once: its kill plan is walked anew."""

    async def scene() -> None:
        async with opened() as (controller, link):
            view = View()
            attempt = await dispatched(controller, link, view)
            view.ending.add(attempt)
            for _ in range(2):
                await controller.cancel(attempt.job_id)
                order = await link.take_work(view)
                assert isinstance(order, Cancel)
                assert order.attempt == attempt
                assert await link.take_work(view) == Nothing()

    asyncio.run(scene())


def test_what_is_put_back_is_given_out_though_its_mark_was_not_written_at_once(tmp_path: Path) -> None:
    """As on a full disk: the report did not arrive then, and is said again; what the queue has done by it is done."""

    async def scene() -> None:
        mark = _FullMark()
        controller = await LocalController.open(tmp_path / "controller.db", mark=mark)  # type: ignore[arg-type]
        link = LocalLink(controller)
        await link.register(node())
        job = (await controller.submit(wanting(1), submitted_by=0)).job_id
        assert isinstance(await link.take_work(View()), Dispatch)
        await controller.requeue(job)
        view = View()
        view.held.add(AttemptId(job, 1))
        assert await link.take_work(view) == Cancel(attempt=AttemptId(job, 1), why="requeued")
        view.ending.add(AttemptId(job, 1))
        assert await link.take_work(view) == Nothing()
        with pytest.raises(Unreachable):
            await link.report(report_of(AttemptId(job, 1)))
        mark.full = False
        assert await link.report(report_of(AttemptId(job, 1))) == Acknowledged()
        order = await link.take_work(View())
        assert isinstance(order, Dispatch)
        assert order.attempt == AttemptId(job, 2)
        await controller.close()

    asyncio.run(scene())


class _FullMark:
    """A mark that cannot be written."""

    full = True
    mark = Mark()

    def raise_to(self, _: Mark) -> None:
        if self.full:
            raise SystemCallError(errno.ENOSPC, "no space left")
