"""Waiting under plain asyncio."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.facilities import Facilities
from spurproc.core.process.pidfd import Pidfd
from spurproc.errors import InvalidArgument
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, Foster, in_fork
from tests.rungs import RUNGS, without

PayloadMaker = Callable[..., Payload]


@pytest.fixture(params=RUNGS, ids=lambda mask: f"without({mask})")
def rung(request: pytest.FixtureRequest) -> Iterator[Facilities]:
    """Each rung of the ladder in turn."""
    with without(request.param) as facilities:
        yield facilities


def _descriptors() -> list[str]:
    """Names are enough: the lowest free one is taken first, and the listing's own is among them each time."""
    return sorted(os.listdir("/proc/self/fd"))


async def _started(task: asyncio.Task[ExitInfo]) -> None:
    """Let the task run until it waits for the loop."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()


def test_several_waiters_on_one_child(rung: Facilities) -> None:
    """All are told, on one pidfd, with no thread and no handler."""
    handler = signal.getsignal(signal.SIGCHLD)

    async def main() -> list[ExitInfo]:
        tasks = [asyncio.create_task(pidfd.wait_async()) for _ in range(5)]
        for task in tasks:
            await _started(task)
        assert threading.active_count() == 1
        assert signal.getsignal(signal.SIGCHLD) is handler
        child.release()
        return await asyncio.gather(*tasks)

    with Blocked(6) as child, Pidfd.open(child.pid) as pidfd:
        answers = asyncio.run(main())
    assert [(info.code, info.source) for info in answers] == [(6, ExitSource.WAITED)] * 5


def test_cancelling_leaks_nothing(rung: Facilities) -> None:
    """Neither a descriptor nor a reader of the loop is left; the others go on waiting."""

    async def main() -> ExitInfo:
        before = _descriptors()
        tasks = [asyncio.create_task(pidfd.wait_async()) for _ in range(4)]
        for task in tasks:
            await _started(task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        assert _descriptors() == before
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await pidfd.wait_async()
        assert _descriptors() == before
        again = asyncio.create_task(pidfd.wait_async())
        await _started(again)  # on the descriptor number of one that was cancelled
        child.release()
        async with asyncio.timeout(10):
            return await again

    with Blocked(2) as child, Pidfd.open(child.pid) as pidfd:
        assert asyncio.run(main()).code == 2


def test_closed_in_the_middle_of_a_wait(rung: Facilities) -> None:
    """An epoll forgets a closed descriptor without a word; the waiter is told when the process ends, at the latest."""

    async def main() -> None:
        task = asyncio.create_task(pidfd.wait_async())
        await _started(task)
        pidfd.close()
        child.release()
        async with asyncio.timeout(10):
            await task

    with Blocked(2) as child, Pidfd.open(child.pid) as pidfd, pytest.raises(InvalidArgument, match="it is closed"):
        asyncio.run(main())


def test_ended_before_the_wait(rung: Facilities) -> None:
    with Blocked(4) as child, Pidfd.open(child.pid) as pidfd:
        child.end()
        assert asyncio.run(pidfd.wait_async()).code == 4
        assert asyncio.run(pidfd.wait_async()).source is ExitSource.WAITED


def test_foreign_process(rung: Facilities, payload: PayloadMaker) -> None:
    with Foster(payload, "signal", 15) as process, Pidfd.open(process.pid) as pidfd:

        async def main() -> ExitInfo:
            task = asyncio.create_task(pidfd.wait_async())
            await _started(task)
            process.end()
            process.reap()
            return await task

        info = asyncio.run(main())
        if rung.pidfd_exit_info and rung.pidfd_open:
            assert (info.signal, info.source) == (15, ExitSource.PIDFD)
        else:
            assert info.kind is ExitKind.UNKNOWN


@pytest.mark.needs_root
def test_unreaped_zombie_neither_spins_nor_hangs(rung: Facilities, payload: PayloadMaker) -> None:
    """Its pidfd stays readable for ever; the loop sleeps through the grace all the same."""
    with Foster(payload, "exit", 0) as process, Pidfd.open(process.pid) as pidfd:
        process.end()

        def child() -> list[object]:
            busy = time.process_time()
            info = asyncio.run(pidfd.wait_async(reap_grace_s=0.4))
            return [info.kind.value, time.process_time() - busy]

        kind, busy_s = in_fork(child, uid=NOBODY)
        assert kind == "unknown"
        assert busy_s < 0.2


def test_asyncio_is_loaded_by_the_first_wait_alone() -> None:
    program = """
import os, sys
from spurproc.core.process.pidfd import Pidfd
with Pidfd.open(os.getppid()) as pidfd:
    pidfd.liveness(), pidfd.exit_info()
    waiting = pidfd.wait_async()
    assert "asyncio" not in sys.modules
    waiting.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
