"""What goes on for one attempt and fails: by the node it is begun anew, by a fault of ours it stops, and is shown."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spurproc.agent import boot_clock
from spurproc.agent.attempts import hooks, tasks, watching
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.step import Traces
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.attempts.tasks import Tasks
from spurproc.agent.attempts.trace import Trace
from spurproc.agent.attempts.watching import Watcher
from spurproc.agent.store.attempt_row import AttemptState, CancelIntent
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import SpurprocError, SystemCallError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.step_state import StepState
from tests.agent_around import surroundings
from tests.agent_values import exited

_NONE = cast("Any", None)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Soon:
        """A back-off that is over at once."""

        def __init__(self, **_: float) -> None: ...

        def next_s(self) -> float:
            return 0.0

    monkeypatch.setattr(tasks, "BackOff", Soon)
    monkeypatch.setattr(watching, "BackOff", Soon)


def _around() -> Surroundings:
    return surroundings(blocking=Blocking(1))


def _attempt(step: object = None, state: AttemptState = AttemptState.RUNNING) -> Attempt:
    trace = Trace(b"not read")
    return Attempt(
        id=AttemptId(1, 1),
        allocation=None,
        accepted_at=1.0,
        uid=0,
        state=state,
        step=cast("Any", step),
        trace=trace,
        started_at=1.0,
    )


def _no_descriptor(*_: object, **__: object) -> Any:
    raise SystemCallError(errno.EMFILE, "Too many open files")


async def _until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - each turn of the loop is looked at
            await asyncio.sleep(0)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), SpurprocError("not now")])
def test_what_the_node_refuses_is_begun_anew_and_shown_until_it_goes_on(error: Exception) -> None:
    async def scene() -> None:
        around, attempt = _around(), _attempt()
        shown: list[list[str]] = []

        async def work(_: Attempt) -> None:
            shown.append(list(around.problems.values()))
            if len(shown) < 3:
                raise error

        Tasks(around).spawn(attempt, work)
        await _until(lambda: len(shown) == 3 and not around.problems)
        assert shown == [[], *[[f"attempt 1.1 cannot go on yet: {error}"]] * 2]
        assert attempt.state is AttemptState.RUNNING
        await around.blocking.close()

    asyncio.run(scene())


def test_a_fault_of_ours_stops_the_attempt_and_is_shown() -> None:
    async def scene() -> None:
        around, attempt, told = _around(), _attempt(), list[AttemptId]()
        around.listeners.append(told.append)

        async def work(_: Attempt) -> None:
            raise RuntimeError("it is wrong")

        Tasks(around).spawn(attempt, work)
        await _until(lambda: told)
        assert (attempt.state, attempt.broken) == (AttemptState.HELD, True)
        assert "it is wrong" in (attempt.held_because or "")
        await around.blocking.close()

    asyncio.run(scene())


class Step:
    """As a watcher uses it: each act is refused as often as is said, and then done."""

    def __init__(self, *, terminate: int = 0, waits: int = 0, status: int = 0, state: StepState = StepState.RUNNING) -> None:
        self.left = {"terminate": terminate, "waits": waits, "status": status}
        self.state = state
        self.over = asyncio.Event()
        self.terminated = 0
        self.begun_s_ago = 0.0

    def _refused(self, act: str) -> None:
        self.left[act] -= 1
        if self.left[act] >= 0:
            _no_descriptor()

    def terminate(self, *, timeout_s: float, begun_s_ago: float) -> None:
        """See `client.step.Step`."""
        del timeout_s
        self._refused("terminate")
        self.begun_s_ago = begun_s_ago
        self.terminated += 1

    def status(self) -> SimpleNamespace:
        """See `client.step.Step`."""
        self._refused("status")
        return SimpleNamespace(state=self.state, held_by=())

    async def wait_async(self, *, completed: bool) -> ExitInfo:
        """See `client.step.Step`."""
        assert completed
        self._refused("waits")
        await self.over.wait()
        return exited(3)


async def _nothing(_: Attempt) -> None: ...


def _watcher(around: Surroundings, events: list[AttemptEvent]) -> Watcher:
    def post(attempt: Attempt, event: AttemptEvent) -> None:
        events.append(event)
        if event is AttemptEvent.STUCK:
            attempt.state = AttemptState.HELD

    return Watcher(around, post, Tasks(around).spawn, cast("Callable[[Attempt], Awaitable[None]]", _nothing))


def test_one_that_cannot_be_told_to_end_is_told_again() -> None:
    async def scene() -> None:
        around, step = _around(), Step(terminate=2)
        attempt = _attempt(step)
        await _watcher(around, []).terminate(attempt)
        await _until(lambda: step.terminated and not around.problems)
        attempt.end = exited(1)
        await around.blocking.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("ahead_s", "begun_s_ago"), [(30.0, 30.0), (-30.0, 0.0), (None, 0.0)], ids=["earlier", "another boot", "not said"]
)
def test_a_step_of_the_wall_clock_takes_nothing_from_a_plan_that_an_agent_before_us_began(
    monkeypatch: pytest.MonkeyPatch, ahead_s: float | None, begun_s_ago: float
) -> None:
    """What counts is the clock that nobody sets."""
    monkeypatch.setattr(boot_clock, "boot_s", lambda: 1000.0)

    async def scene() -> None:
        around, step = surroundings(blocking=Blocking(1), clock=lambda: 86_400.0), Step()
        attempt = _attempt(step)
        attempt.was_to_end = True
        attempt.cancel = CancelIntent(uid=0, why="no need", at=1.0, at_boot_s=None if ahead_s is None else 1000.0 - ahead_s)
        await _watcher(around, []).terminate(attempt)
        await _until(lambda: step.terminated)
        assert step.begun_s_ago == begun_s_ago
        attempt.end = exited(1)
        await around.blocking.close()

    asyncio.run(scene())


def test_one_whose_plan_is_walked_from_here_is_not_told_again_meanwhile() -> None:
    """Else each word would begin another walk, and another signal."""

    class Walked(Step):
        """One of which the walk takes its time."""

        def __init__(self) -> None:
            super().__init__()
            self.go_on = Event()

        def terminate(self, **more: float) -> None:
            super().terminate(**more)
            assert self.go_on.wait(60)

    async def scene() -> None:
        around, step = _around(), Walked()
        attempt = _attempt(step)
        watcher = _watcher(around, [])
        await watcher.terminate(attempt)
        await _until(lambda: step.terminated)
        await watcher._terminate(attempt)
        assert step.terminated == 1
        step.go_on.set()
        await _until(lambda: not watcher._walking)
        await watcher._terminate(attempt)
        assert step.terminated == 2
        attempt.end = exited(1)
        await around.blocking.close()

    asyncio.run(scene())


@pytest.mark.parametrize(("state", "more"), [(StepState.RUNNING, []), (StepState.SUSPENDED, [AttemptEvent.SUSPENDED])])
def test_one_that_could_not_be_watched_for_a_moment_is_held_no_longer_than_that(
    state: StepState, more: list[AttemptEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_at(_: Surroundings, attempt: Attempt) -> tuple[Traces, bool]:
        """There is no folder of it here: nothing is found that was not known."""
        return Traces(attempt.trace, 1.0), attempt.state is AttemptState.SUSPENDED

    monkeypatch.setattr(watching, "_looked_at", looked_at)

    async def scene() -> None:
        around, step, events = _around(), Step(waits=2, status=1, state=state), list[AttemptEvent]()
        attempt = _attempt(step)
        await _watcher(around, events).watch(attempt)
        await _until(lambda: step.left["waits"] < 0)
        found = [AttemptEvent.FOUND, *more]
        assert events == [AttemptEvent.STUCK, *found, AttemptEvent.STUCK, *found]
        assert attempt.held_because is None
        step.over.set()
        await _until(lambda: events[-1] is AttemptEvent.STEP_OVER)
        assert attempt.end == exited(3)
        await around.blocking.close()

    asyncio.run(scene())


def test_a_hook_that_cannot_be_looked_at_for_a_moment_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs it begins anew; what the kernel says of the hook itself is its end."""

    async def refused(*_: object) -> str:
        return cast("str", _no_descriptor())

    async def missing(*_: object) -> str:
        raise SystemCallError(errno.ENOENT, "No such file or directory")

    async def scene() -> None:
        around = _around()
        monkeypatch.setattr(hooks, "_run", refused)
        with pytest.raises(SystemCallError, match="Too many open files"):
            await hooks.run_hook(around, _NONE)
        monkeypatch.setattr(hooks, "_run", missing)
        assert "No such file" in await hooks.run_hook(around, _NONE)
        await around.blocking.close()

    asyncio.run(scene())


@pytest.mark.parametrize("turns", [0, 1])
def test_what_was_seen_before_somebody_has_resumed_it_is_old(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    """An agent before us had frozen it, and did not come to say so."""

    async def scene() -> None:
        around, step, events = _around(), Step(), list[AttemptEvent]()
        attempt = _attempt(step)
        attempt.trace = Trace()

        def looked_at(*_: object) -> tuple[Traces, bool]:
            attempt.turns += turns
            return Traces(Trace(b"not read"), 1.0), True

        monkeypatch.setattr(watching, "_looked_at", looked_at)
        await _watcher(around, events)._look(attempt)
        assert events == ([] if turns else [AttemptEvent.SUSPENDED])
        await around.blocking.close()

    asyncio.run(scene())
