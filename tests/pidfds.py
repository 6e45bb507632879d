"""Pidfds of the harness itself, which it has even where pidfd_open(2) is refused to the code under test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time

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


def wait_reaped(pidfd: int, timeout_s: float = 10) -> None:
    """Until its parent has reaped a process that has ended, or its time is over: POLLHUP (Linux 6.9) tells when.

    Older kernels: signal 0 to a reaped process is ESRCH.
    """
    poller = select.poll()
    poller.register(pidfd, 0)
    deadline = time.monotonic() + timeout_s
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            signal.pidfd_send_signal(pidfd, 0)
            poller.poll(10)
