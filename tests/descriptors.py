"""A process that has only so many descriptors left."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """As many can be opened, then EMFILE."""
    taken = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(count + 1)]
    for fd in taken:
        os.close(fd)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def descriptors_left_of(pid: int, count: int) -> Iterator[None]:
    """The same of another process. getrlimit(2), RLIMIT_NOFILE: one more than the highest number it may get."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    free = (number for number in itertools.count() if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(itertools.islice(free, count, None)), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
