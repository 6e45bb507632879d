"""The threads of the agent: what takes long keeps no launch waiting."""

from __future__ import annotations

import asyncio
from threading import Event

from spurproc.agent.attempts.surroundings import Blocking


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
