"""The threads of the agent: what takes long keeps no launch waiting."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from spurproc.agent.attempts.blocking import Blocking
from spurproc.errors import SystemCallError
from tests.relatives import in_fork
from tests.thread_limit import no_thread_begins


def test_a_launch_does_not_wait_for_removals() -> None:
    """However many there are: they wait for each other."""
    done = Event()

    async def both() -> str:
        blocking = Blocking(1)
        removals = [asyncio.create_task(blocking.run_patiently(done.wait)) for _ in range(20)]
        try:
            async with asyncio.timeout(30):
                return await blocking.run(lambda: "launched")
        finally:
            done.set()
            await asyncio.gather(*removals)
            await blocking.close()

    assert asyncio.run(both()) == "launched"


def test_a_launch_and_a_removal_wait_for_no_kill_plan() -> None:
    """However many are walked, for as long as each takes."""
    done = Event()

    async def all_three() -> list[str]:
        blocking = Blocking(1)
        walks = [asyncio.create_task(blocking.walk(done.wait)) for _ in range(200)]
        try:
            async with asyncio.timeout(30):
                return [await blocking.run(lambda: "launched"), await blocking.run_patiently(lambda: "removed")]
        finally:
            done.set()
            await asyncio.gather(*walks)
            await blocking.close()

    assert asyncio.run(all_three()) == ["launched", "removed"]


def test_the_end_waits_for_no_kill_plan_and_no_removal() -> None:
    """Both are done again at the next start."""
    never = Event()

    async def ended() -> None:
        blocking = Blocking(1)
        going_on = [asyncio.create_task(one(never.wait)) for one in (blocking.walk, blocking.run_patiently)]
        await blocking.run(lambda: None)
        async with asyncio.timeout(30):
            await blocking.close()
        for task in going_on:
            assert not task.done()
            task.cancel()

    asyncio.run(ended())
    never.set()


def test_what_has_begun_is_done_when_they_are_given_up() -> None:
    """What a thread launches is launched by an owner of the folder."""
    seen: list[str] = []

    async def given_up() -> None:
        blocking, begun, go_on = Blocking(1), Event(), Event()

        def work(name: str) -> None:
            begun.set()
            go_on.wait(30)
            seen.append(name)

        first, second = (asyncio.ensure_future(blocking.run(work, name)) for name in ("first", "second"))
        await asyncio.to_thread(begun.wait)
        closing = asyncio.create_task(blocking.close())
        go_on.set()
        await closing
        await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(given_up())
    assert seen[0] == "first"


def test_the_threads_are_there_before_a_fork_bomb_is() -> None:
    """None begins in the middle of one; and an agent whose threads cannot begin does not."""

    async def scene() -> int:
        blocking = Blocking(4)
        with no_thread_begins():
            with pytest.raises(SystemCallError, match="cannot begin 4 threads"):
                Blocking(4)
            done = await asyncio.gather(*(blocking.run(int) for _ in range(16)))
        await blocking.close()
        return len(done)

    assert in_fork(lambda: asyncio.run(scene())) == 16
