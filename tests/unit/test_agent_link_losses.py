"""Messages that are lost on the way to a controller on another machine: said again, they do what they did, and no more."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.agent.controller.link import (
    Acknowledged,
    AttemptReport,
    Beat,
    Cancel,
    Dispatch,
    Healthy,
    NotFound,
    Nothing,
    Reclaim,
    RefusedForGood,
    Registered,
    Unreachable,
)
from spurproc.core.exit_info import ExitInfo
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode, encode
from tests.agent_values import View, job_spec, node, report_of, wanting
from tests.remote_controller import Loss, RemoteController

ONE, TWO = AttemptId(1, 1), AttemptId(2, 1)
ATTEMPTS = st.builds(AttemptId, st.integers(1, 2**63 - 1), st.integers(1, 2**32 - 1))
ANSWERS = Dispatch | Cancel | Nothing | NotFound | Acknowledged | RefusedForGood | Registered | Healthy | Reclaim


@pytest.mark.parametrize("loss", list(Loss))
def test_a_dispatch_whose_answer_is_lost_is_said_again(loss: Loss) -> None:
    async def scene() -> None:
        controller, view = RemoteController(), View()
        await controller.register(node())
        controller.submit(wanting(1))
        controller.losses = [loss]
        with pytest.raises(Unreachable):
            await controller.take_work(view)
        order = await controller.take_work(view)
        assert isinstance(order, Dispatch)
        view.held.add(order.attempt)
        assert await controller.take_work(view) == Nothing()

    asyncio.run(scene())


@pytest.mark.parametrize("loss", list(Loss))
def test_a_report_is_repeated_until_it_is_answered_and_a_refused_one_hinders_no_other(loss: Loss) -> None:
    async def scene() -> None:
        controller, view = RemoteController(refused={ONE}), View()
        await controller.register(node())
        for _ in range(2):
            controller.submit(wanting(1))
            order = await controller.take_work(view)
            assert isinstance(order, Dispatch)
            view.held.add(order.attempt)
        controller.losses = [None, loss]
        assert isinstance(await controller.report(report_of(ONE, 3)), RefusedForGood)
        with pytest.raises(Unreachable):
            await controller.report(report_of(TWO, 4))
        assert await controller.report(report_of(TWO, 4)) == Acknowledged()
        assert controller.jobs[2].report == report_of(TWO, 4)
        assert controller.jobs[1].report is None

    asyncio.run(scene())


def test_a_reclaim_names_the_attempt_that_was_given_up_and_not_the_next() -> None:
    async def scene() -> None:
        controller, view = RemoteController(), View()
        generation = (await controller.register(node())).generation
        controller.submit(wanting(1))
        await controller.take_work(view)
        controller.requeue(1)
        controller.reclaim(ONE)
        order = await controller.take_work(view)
        assert order == Dispatch(attempt=AttemptId(1, 2), spec=wanting(1))
        from_beat = await controller.heartbeat(Beat(generation=generation))
        assert from_beat == Healthy(reclaims=(Reclaim(attempt=ONE, why="given up"),))
        assert isinstance(await controller.report(report_of(ONE)), RefusedForGood)

    asyncio.run(scene())


@given(
    st.one_of(
        st.builds(Dispatch, attempt=ATTEMPTS, spec=st.builds(job_spec, env=st.just(("A=é",)))),
        st.builds(Cancel, attempt=ATTEMPTS, uid=st.none() | st.integers(0, 9), why=st.text()),
        st.builds(RefusedForGood, why=st.text()),
        st.builds(Registered, generation=st.integers(0, 9)),
        st.builds(Healthy, reclaims=st.lists(st.builds(Reclaim, attempt=ATTEMPTS, why=st.text()), max_size=2).map(tuple)),
        st.sampled_from([Nothing(), NotFound(), Acknowledged()]),
    )
)
def test_what_is_said_survives_the_wire(message: object) -> None:
    assert decode(encode(message), ANSWERS, "a message") == message  # type: ignore[arg-type]  # a union


@given(ATTEMPTS, st.booleans(), st.none() | st.text(), st.none() | st.floats(0, 1e9))
def test_a_report_survives_the_wire(attempt: AttemptId, cancelled: bool, fault: str | None, at: float | None) -> None:
    end = ExitInfo.unknown("nobody saw it")
    report = AttemptReport(attempt=attempt, end=end, cancelled=cancelled, node_fault=fault, started_at=at, ended_at=at)
    assert decode(encode(report), AttemptReport, "a report") == report
