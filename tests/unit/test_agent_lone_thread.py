"""A thread of its own for what the kernel may never answer, where there can be no thread."""

from __future__ import annotations

import asyncio
import errno

import pytest

from spurproc.agent.lone_thread import LoneThread
from spurproc.errors import SystemCallError
from tests.relatives import in_fork
from tests.thread_limit import no_thread_begins


def test_no_thread_to_be_had_is_an_error_of_the_node_and_passes() -> None:
    async def scene() -> list[object]:
        threads = LoneThread(60.0)
        with no_thread_begins(), pytest.raises(SystemCallError, match="cannot begin a thread") as caught:
            await threads.run(int)
        return [caught.value.errno, await threads.run(int)]

    assert in_fork(lambda: asyncio.run(scene())) == [errno.EAGAIN, 0]
