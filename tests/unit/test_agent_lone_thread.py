"""A thread of its own for what the kernel may never answer, where there can be no thread."""

from __future__ import annotations

import asyncio
import errno
import resource
import threading

import pytest

from spurproc.agent.inventory.lone_thread import LoneThread
from spurproc.errors import SystemCallError
from tests.relatives import in_fork


def test_no_thread_to_be_had_is_an_error_of_the_node_and_passes() -> None:
    """As in a fork bomb. Here it is the memory for its stack that is missing."""

    async def scene() -> list[object]:
        threads, limits = LoneThread(60.0), resource.getrlimit(resource.RLIMIT_AS)
        threading.stack_size(256 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (_size() + (128 << 20), limits[1]))
        with pytest.raises(SystemCallError, match="cannot begin a thread") as caught:
            await threads.run(int)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        return [caught.value.errno, await threads.run(int)]

    assert in_fork(lambda: asyncio.run(scene())) == [errno.EAGAIN, 0]


def _size() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
