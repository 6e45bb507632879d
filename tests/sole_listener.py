"""One listener to process events at a time: whoever listens hears what others ask of the kernel, and finds its count raised."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = Path(tempfile.gettempdir(), "spurproc-test-proc-events")


@contextmanager
def alone() -> Iterator[None]:
    """No other run of these suites on this machine is in here meanwhile."""
    fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
