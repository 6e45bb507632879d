"""Pidfds of the harness itself, which it has even where pidfd_open(2) is refused to the code under test."""

from __future__ import annotations

import fcntl
import os

from tests.pace import readable

SPARED_FLAGS = os.O_NONBLOCK
"""PIDFD_NONBLOCK, Linux 5.10: spurproc passes no flags, so the filter of `tests.sandbox` tells the two apart by them."""


def open_pidfd(pid: int) -> int:
    """A blocking pidfd, as os.pidfd_open gives it."""
    pidfd = os.pidfd_open(pid, SPARED_FLAGS)
    fcntl.fcntl(pidfd, fcntl.F_SETFL, fcntl.fcntl(pidfd, fcntl.F_GETFL) & ~SPARED_FLAGS)
    return pidfd


def wait_ended(pidfd: int) -> None:
    """Wait for the end of the process, and close its pidfd."""
    try:
        assert readable(pidfd, 10)
    finally:
        os.close(pidfd)
