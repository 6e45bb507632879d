"""Numbers that mean nothing are refused before the kernel sees them."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from spurproc.core._native import lib
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd, checked_signal
from spurproc.errors import InvalidArgument

NO_PIDS = [0, -1, -(2**31), 2**31, 2**64, True, 1.0, "1", None]
NO_SIGNALS = [0, -1, 65, 2**31, True, False, 9.0, "SIGKILL", None]


@pytest.mark.parametrize("pid", NO_PIDS)
def test_no_pid(pid: int) -> None:
    with pytest.raises(InvalidArgument, match="pid"):
        Pidfd.open(pid)
    with pytest.raises(InvalidArgument, match="pid"):
        ProcessIdentity.of(pid)


@pytest.mark.parametrize("sig", NO_SIGNALS)
def test_no_signal(sig: int) -> None:
    with pytest.raises(InvalidArgument, match="signal"):
        checked_signal(sig)


def test_signals() -> None:
    assert checked_signal(signal.SIGTERM) == 15
    assert [checked_signal(number) for number in (1, 64)] == [1, 64]


@pytest.mark.parametrize("pid", [-(2**31), -1, 0, 1, None])
def test_guard_refuses(pid: int | None) -> None:
    """The guard of the C core itself: no signal ever goes to these, nor to us."""
    assert lib.spur_pid_guard(os.getpid() if pid is None else pid) < 0


def test_guard_lets_others_pass() -> None:
    assert lib.spur_pid_guard(os.getppid()) == 0 or os.getppid() <= 1


def test_a_descriptor_that_is_none_is_not_alive() -> None:
    """poll(2) passes over a negative one, and says nothing but POLLNVAL of one that is closed: neither is a life."""
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    assert (lib.spur_pidfd_poll(-1), lib.spur_pidfd_poll(fd)) == (-errno.EBADF, -errno.EBADF)
