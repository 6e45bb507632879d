"""A process in which no thread more can begin, as in a fork bomb: it is the memory for a stack that is missing."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STACK_BYTES = 256 << 20


@contextmanager
def no_thread_begins() -> Iterator[None]:
    """Of this process: in a fork of the test's own."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    before = threading.stack_size(_STACK_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + _STACK_BYTES // 2, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        threading.stack_size(before)
