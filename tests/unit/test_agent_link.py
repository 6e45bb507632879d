"""What an agent may rely on, whoever gives it work: the built-in controller and one on another machine keep the same contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from spurproc.agent.controller.link import (
    Acknowledged,
    Beat,
    Cancel,
    ControllerLink,
    Dispatch,
    Healthy,
    NotFound,
    Nothing,
    RefusedForGood,
)
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, node, report_of, wanting
from tests.remote_controller import RemoteController
from tests.remote_wire import RemoteLink, listening


@dataclass(frozen=True, kw_only=True)
class Controller:
    """A link, and what happens on its other side."""

    link: ControllerLink
    submit: Callable[[JobSpec], Awaitable[int]]
    cancel: Callable[[int], Awaitable[object]]
    requeue: Callable[[int], Awaitable[object]]
    code: Callable[[int], Awaitable[int | None]]
    """What the last attempt of a job exited with; None before that."""


def local_side(controller: LocalController) -> Controller:
    async def submit(spec: JobSpec) -> int:
        return (await controller.submit(spec, submitted_by=0)).job_id

    async def code(job_id: int) -> int | None:
        last = (await controller.attempts(job_id))[-1]
        return None if last.report is None else last.report.end.code

    link = LocalLink(controller)
    return Controller(link=link, submit=submit, cancel=controller.cancel, requeue=controller.requeue, code=code)


def remote_side(controller: RemoteController, link: ControllerLink | None = None) -> Controller:
    async def submit(spec: JobSpec) -> int:
        return controller.submit(spec)

    async def cancel(job_id: int) -> None:
        controller.cancel(job_id)

    async def requeue(job_id: int) -> None:
        controller.requeue(job_id)

    async def code(job_id: int) -> int | None:
        report = controller.jobs[job_id].report
        return None if report is None else report.end.code

    return Controller(link=link or controller, submit=submit, cancel=cancel, requeue=requeue, code=code)


Open = Callable[[], AbstractAsyncContextManager[Controller]]


@pytest.fixture(params=["local", "remote", "wire"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    @asynccontextmanager
    async def local() -> AsyncIterator[Controller]:
        controller = await LocalController.open(tmp_path / "controller.db", clock=lambda: 1.0)
        yield local_side(controller)
        await controller.close()

    @asynccontextmanager
    async def remote() -> AsyncIterator[Controller]:
        yield remote_side(RemoteController())

    @asynccontextmanager
    async def wire() -> AsyncIterator[Controller]:
        controller, path = RemoteController(), str(tmp_path / "s")
        async with listening(controller, path):
            yield remote_side(controller, RemoteLink(path))

    return {"local": local, "remote": remote, "wire": wire}[request.param]


async def taken(link: ControllerLink, view: View) -> AttemptId:
    """The next dispatch, held."""
    order = await link.take_work(view)
    assert isinstance(order, Dispatch), order
    view.held.add(order.attempt)
    return order.attempt


def test_nothing_is_said_to_a_node_that_is_not_registered(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link = controller.link
            assert await link.take_work(View()) == NotFound()
            assert await link.heartbeat(Beat(generation=1)) == NotFound()
            assert await link.drain(("why",)) == NotFound()
            first = await link.register(node())
            second = await link.register(node())
            assert second.generation > first.generation
            assert await link.heartbeat(Beat(generation=first.generation)) == NotFound()
            assert await link.heartbeat(Beat(generation=second.generation)) == Healthy()
            await link.deregister()
            await link.deregister()
            assert await link.heartbeat(Beat(generation=second.generation)) == NotFound()

    asyncio.run(scene())


def test_a_dispatch_is_said_again_until_it_is_held(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            spec = wanting(1, name="first")
            job_id = await controller.submit(spec)
            await controller.submit(wanting(1, name="second"))
            expected = Dispatch(attempt=AttemptId(job_id, 1), spec=spec)
            assert [await link.take_work(view) for _ in range(3)] == [expected] * 3
            await link.register(node())
            assert await link.take_work(view) == expected
            view.held.add(expected.attempt)
            order = await link.take_work(view)
            assert isinstance(order, Dispatch)
            assert order.spec.name == "second"
            view.held.add(order.attempt)
            assert await link.take_work(view) == Nothing()

    asyncio.run(scene())


def test_only_the_head_of_the_queue_is_considered(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View(free_cpus=2)
            await link.register(node())
            large = await controller.submit(wanting(4))
            small = await controller.submit(wanting(1))
            assert await link.take_work(view) == Nothing()
            view.free_cpus = 4
            assert (await taken(link, view)).job_id == large
            assert (await taken(link, view)).job_id == small

    asyncio.run(scene())


def test_a_cancel_names_the_attempt_until_the_node_knows(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            job_id = await controller.submit(wanting(1))
            attempt = await taken(link, view)
            await controller.cancel(job_id)
            for _ in range(2):
                order = await link.take_work(view)
                assert isinstance(order, Cancel)
                assert order.attempt == attempt
            view.ending.add(attempt)
            assert await link.take_work(view) == Nothing()
            assert await link.report(report_of(attempt, 9, cancelled=True)) == Acknowledged()
            assert await controller.code(job_id) == 9

    asyncio.run(scene())


def test_what_is_cancelled_in_the_queue_is_never_dispatched(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            await controller.cancel(await controller.submit(wanting(4)))
            other = await controller.submit(wanting(1))
            assert (await taken(link, view)).job_id == other
            assert await link.take_work(view) == Nothing()

    asyncio.run(scene())


def test_a_report_is_acknowledged_as_often_as_it_is_said_and_counts_once(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            job_id = await controller.submit(wanting(1))
            attempt = await taken(link, view)
            for code in (3, 3, 4):
                assert await link.report(report_of(attempt, code)) == Acknowledged()
            assert await controller.code(job_id) == 3

    asyncio.run(scene())


def test_a_report_that_nobody_waits_for_is_refused_and_hinders_no_other(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            job_id = await controller.submit(wanting(1))
            queued = await controller.submit(wanting(4))
            attempt = await taken(link, view)
            for stranger in (AttemptId(99, 1), AttemptId(job_id, 2), AttemptId(queued, 1)):
                assert isinstance(await link.report(report_of(stranger)), RefusedForGood)
            assert await link.report(report_of(attempt, 5)) == Acknowledged()
            assert await controller.code(job_id) == 5

    asyncio.run(scene())


def test_a_requeued_job_is_another_attempt(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            job_id = await controller.submit(wanting(1))
            first = await taken(link, view)
            assert await link.report(report_of(first)) == Acknowledged()
            await controller.requeue(job_id)
            assert await taken(link, view) == AttemptId(job_id, 2)

    asyncio.run(scene())


def test_a_drained_node_gets_no_new_work_and_still_hears_what_to_end(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            job_id = await controller.submit(wanting(1))
            attempt = await taken(link, view)
            await controller.submit(wanting(1))
            await link.drain(("maintenance",))
            assert await link.take_work(view) == Nothing()
            await controller.cancel(job_id)
            order = await link.take_work(view)
            assert isinstance(order, Cancel)
            view.ending.add(attempt)
            await link.drain(())
            await link.register(node(drains=("maintenance",)))
            assert await link.take_work(view) == Nothing(), "each description of the node replaces the one before"
            await link.register(node())
            await taken(link, view)

    asyncio.run(scene())


def test_a_node_that_waits_for_work_is_told(opened: Open) -> None:
    async def scene() -> None:
        async with opened() as controller:
            link, view = controller.link, View()
            await link.register(node())
            async with asyncio.timeout(60):
                await link.await_work()
                assert await link.take_work(view) == Nothing()
                waits = asyncio.ensure_future(link.await_work())
                job_id = await controller.submit(wanting(1))
                await waits
                attempt = await taken(link, view)
                waits = asyncio.ensure_future(link.await_work())
                await controller.cancel(job_id)
                await waits
            order = await link.take_work(view)
            assert isinstance(order, Cancel)
            assert order.attempt == attempt

    asyncio.run(scene())
