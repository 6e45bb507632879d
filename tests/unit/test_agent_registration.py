"""One loop for the first registration, every later one and the sign of life: bounded, and never with what no longer holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spurproc.agent.controller.link import Beat, NodeDescription, Reclaim, Registered
from spurproc.agent.controller.registration import BackOff, NodeSide, Registration, pause
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import node, wanting
from tests.remote_controller import Loss, RemoteController

ONE = AttemptId(1, 1)
BEAT_S = 5.0


class Clock:
    """Time that goes on only when the test lets it: each pause of the loop is handed to the test, which ends it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: asyncio.Queue[float] = asyncio.Queue()
        self.over = asyncio.Event()

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        """Until the test says so, or the event is set."""
        self.over.clear()
        self.pauses.put_nowait(seconds)
        ends = [asyncio.ensure_future(one.wait()) for one in (event, self.over)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()

    async def next(self) -> float:
        """How long the loop wants to wait, once it does; it goes on waiting."""
        async with asyncio.timeout(60):
            return await self.pauses.get()

    async def go_on(self, seconds: float) -> None:
        """Let so much time go by, and the loop with it."""
        self.now_s += seconds
        self.over.set()


class Scene:
    """A node, a controller, and the loop between them."""

    def __init__(self, kind: type[RemoteController] = RemoteController, **more: Any) -> None:
        self.clock = Clock()
        self.controller = kind(now=lambda: self.clock.now_s, **more)
        self.node = node(labels={"gpu": "old"})
        self.reclaimed: list[Reclaim] = []
        self.reached: list[bool] = []
        side = NodeSide(
            describe=lambda: self.node, running=lambda: (ONE,), reclaim=self.reclaimed.append, reached=self.reached.append
        )
        back_off = BackOff(first_s=1, last_s=8, chance=lambda: 1.0)
        self.loop = Registration(self.controller, side, interval_s=BEAT_S, back_off=back_off, pause=self.clock.pause)

    def of_kind(self, kind: type) -> list[Any]:
        """What has arrived of it."""
        return [one for one in self.controller.sent if isinstance(one, kind)]


def played(act: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    """Run the loop, and `act` beside it."""

    async def scene() -> None:
        it = Scene(**more)
        loop = asyncio.ensure_future(it.loop.run())
        try:
            await act(it)
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(scene())


def test_a_node_is_registered_once_and_then_gives_signs_of_life() -> None:
    async def act(it: Scene) -> None:
        for _ in range(3):
            assert await it.clock.next() == BEAT_S
            await it.clock.go_on(BEAT_S)
        await it.clock.next()
        assert it.loop.registered.is_set()
        assert len(it.of_kind(NodeDescription)) == 1
        assert it.of_kind(Beat) == [Beat(generation=1, running=(ONE,))] * 3

    played(act)


def test_a_controller_that_is_out_of_reach_is_asked_ever_less_often_up_to_a_bound() -> None:
    async def act(it: Scene) -> None:
        waits = []
        for _ in range(6):
            waits.append(await it.clock.next())
            assert not it.loop.registered.is_set()
            await it.clock.go_on(waits[-1])
        assert waits == [1, 2, 4, 8, 8, 8]
        assert await it.clock.next() == BEAT_S
        await it.clock.go_on(BEAT_S)
        await it.clock.next()
        it.controller.losses = [Loss.MESSAGE]
        await it.clock.go_on(BEAT_S)
        assert await it.clock.next() == 1, "a beat that was heard ends the back-off"
        assert it.reached == [False] * 6 + [True, True, False]

    played(act, losses=[Loss.MESSAGE] * 6)


def test_news_do_not_shorten_the_back_off() -> None:
    async def act(it: Scene) -> None:
        await it.clock.next()
        it.loop.changed()
        it.loop.not_found()
        for _ in range(20):  # turns of the loop, each of which could take it further
            await asyncio.sleep(0)
        assert it.clock.pauses.empty()
        assert it.controller.sent == []

    played(act, losses=[Loss.MESSAGE])


def test_a_lost_answer_to_a_registration_is_asked_for_again() -> None:
    async def act(it: Scene) -> None:
        await it.clock.go_on(await it.clock.next())
        assert await it.clock.next() == BEAT_S
        assert len(it.of_kind(NodeDescription)) == 2
        await it.clock.go_on(BEAT_S)
        await it.clock.next()
        assert it.of_kind(Beat)[-1].generation == 2, "of the registration whose answer came"

    played(act, losses=[Loss.ANSWER])


def test_a_node_that_was_forgotten_registers_again_as_it_is_by_now() -> None:
    async def act(it: Scene) -> None:
        await it.clock.next()
        it.controller.forget_node()
        await it.clock.go_on(BEAT_S)
        wait_s = await it.clock.next()
        assert wait_s == 1, "not at once: a controller that forgets each time is not asked without a pause"
        assert not it.loop.registered.is_set()
        it.node = node(labels={"gpu": "new"})
        await it.clock.go_on(wait_s)
        assert await it.clock.next() == BEAT_S
        assert [one.labels["gpu"] for one in it.of_kind(NodeDescription)] == ["old", "new"]

    played(act)


def test_a_controller_that_forgets_each_registration_is_asked_ever_less_often() -> None:
    async def act(it: Scene) -> None:
        waits = []
        for _ in range(5):
            assert await it.clock.next() == BEAT_S
            it.controller.forget_node()
            await it.clock.go_on(BEAT_S)
            waits.append(await it.clock.next())
            await it.clock.go_on(waits[-1])
        assert waits == [1, 2, 4, 8, 8]

    played(act)


def test_another_answer_that_the_node_is_unknown_counts_as_well() -> None:
    """As often as it comes behind a registration, as by a controller that gives no work to the nodes that it registers."""

    async def act(it: Scene) -> None:
        waits = []
        for _ in range(5):
            assert await it.clock.next() == BEAT_S
            it.loop.not_found()
            it.loop.not_found()
            assert not it.loop.registered.is_set()
            waits.append(await it.clock.next())
            it.loop.not_found()
            await it.clock.go_on(waits[-1])
        assert await it.clock.next() == BEAT_S
        assert waits == [1, 2, 4, 8, 8]
        assert len(it.of_kind(NodeDescription)) == 6

    played(act)


def test_a_silent_node_is_lost_and_its_attempt_taken_back() -> None:
    async def act(it: Scene) -> None:
        await it.clock.next()
        job = it.controller.submit(wanting(1))
        it.controller.jobs[job].dispatched = True
        await it.clock.go_on(61)
        await it.clock.go_on(await it.clock.next())
        await it.clock.next()
        await it.clock.go_on(BEAT_S)
        await it.clock.next()
        assert it.reclaimed == [Reclaim(attempt=AttemptId(job, 1), why="the node was lost")]
        assert it.controller.jobs[job].attempt == AttemptId(job, 2), "a stale reclaim: it names the attempt before"

    played(act)


def test_a_change_is_sent_at_once_and_only_where_there_is_one() -> None:
    async def act(it: Scene) -> None:
        await it.clock.next()
        it.node = node(labels={"gpu": "new"})
        it.loop.changed()
        assert await it.clock.next() == BEAT_S
        it.loop.changed()
        await it.clock.next()
        assert [one.labels["gpu"] for one in it.of_kind(NodeDescription)] == ["old", "new"]

    played(act)


def test_what_changes_while_a_registration_is_on_its_way_is_sent_by_the_next() -> None:
    class Slow(RemoteController):
        """The node changes while it answers."""

        async def register(self, node: NodeDescription) -> Registered:
            """See ControllerLink."""
            answer = await RemoteController.register(self, node)
            await asyncio.sleep(0)
            it.node = changed
            return answer

    async def scene() -> None:
        loop = asyncio.ensure_future(it.loop.run())
        await it.clock.next()
        assert [one.labels["gpu"] for one in it.of_kind(NodeDescription)] == ["old", "new"]
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    changed = node(labels={"gpu": "new"})
    it = Scene(Slow)
    asyncio.run(scene())


def test_drains_are_told_without_a_registration() -> None:
    async def act(it: Scene) -> None:
        await it.clock.next()
        for drains in (("maintenance",), ("maintenance", "inventory"), ()):
            it.node = node(labels={"gpu": "old"}, drains=drains)
            it.loop.changed()
            await it.clock.next()
        assert it.of_kind(tuple) == [("maintenance",), ("maintenance", "inventory"), ()]
        assert len(it.of_kind(NodeDescription)) == 1
        it.node = node(labels={"gpu": "old"}, drains=("again",))
        it.controller.forget_node()
        it.loop.changed()
        await it.clock.go_on(await it.clock.next())
        await it.clock.next()
        assert it.of_kind(NodeDescription)[-1].drains == ("again",)

    played(act)


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_waits_are_spread_by_chance_and_never_above_the_bound(chance: float) -> None:
    back_off = BackOff(first_s=1, last_s=4, chance=lambda: chance)
    waits = [back_off.next_s() for _ in range(4)]
    assert waits == [wait * (0.5 + chance / 2) for wait in (1, 2, 4, 4)]
    back_off.reset()
    assert back_off.next_s() == waits[0]


def test_a_pause_ends_with_its_event_or_its_time() -> None:
    async def scene() -> None:
        event = asyncio.Event()
        await pause(event, 0)
        event.set()
        async with asyncio.timeout(60):
            await pause(event, 3600)

    asyncio.run(scene())
