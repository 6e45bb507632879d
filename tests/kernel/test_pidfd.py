"""A process held: whom a signal reaches, and whom it never does."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted, SignalRefused, Unsupported
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, in_fork
from tests.rungs import RUNGS, without
from tests.trees import released

ALIVE, GONE = Liveness.ALIVE, Liveness.GONE
PayloadMaker = Callable[..., Payload]


@pytest.fixture(params=RUNGS, ids=lambda mask: f"without({mask})")
def rung(request: pytest.FixtureRequest) -> Iterator[Facilities]:
    """Each rung of the ladder in turn."""
    with without(request.param) as facilities:
        yield facilities


def test_signal_reaches_the_process(rung: Facilities, payload: PayloadMaker) -> None:
    process = payload("hold")
    process.wait_ready()
    with Pidfd.open(process.pid) as pidfd:
        assert pidfd.liveness() is ALIVE
        if not rung.pidfd_send_signal:
            with pytest.raises(Unsupported, match=r"pidfd_send_signal\(2\), which is refused here \(masked\)"):
                pidfd.send_signal(signal.SIGTERM)
            assert released(process) == 0, "it was signalled by its number"
            return
        pidfd.send_signal(signal.SIGTERM)
        process.wait_exit()
        assert pidfd.liveness() is GONE
        assert process.reap() == -signal.SIGTERM
        assert pidfd.liveness() is GONE
        with pytest.raises(AlreadyGone):
            pidfd.send_signal(signal.SIGTERM)


def test_caller_itself_is_refused(rung: Facilities) -> None:
    """SIGWINCH is ignored by default: if the guard fails, nobody is hurt."""
    with Pidfd.open(os.getpid()) as pidfd, pytest.raises(SignalRefused):
        pidfd.send_signal(signal.SIGWINCH)


def test_init_is_refused(rung: Facilities) -> None:
    with Pidfd.open(1) as pidfd, pytest.raises(SignalRefused):
        pidfd.send_signal(signal.SIGWINCH)


def test_caller_after_a_fork_is_refused() -> None:
    """The guard asks who it is now, not who opened the pidfd."""

    def child() -> str:
        with Pidfd.open(os.getpid()) as own:
            try:
                own.send_signal(signal.SIGWINCH)
            except SignalRefused:
                return "refused"
        return "sent"

    assert in_fork(child) == "refused"


@pytest.mark.needs_root
def test_other_user_is_not_permitted(rung: Facilities) -> None:
    refused = NotPermitted if rung.pidfd_send_signal else Unsupported
    with Blocked() as process, Pidfd.open(process.pid) as pidfd:

        def child() -> str:
            try:
                pidfd.send_signal(signal.SIGKILL)
            except refused:
                return pidfd.liveness().value
            return "sent"

        assert in_fork(child, uid=NOBODY) == "alive"
        assert pidfd.liveness() is ALIVE


def test_open_of_nobody(rung: Facilities) -> None:
    with Blocked() as process:
        number = process.pid
    with pytest.raises(AlreadyGone, match=f"cannot open process {number}: "):
        Pidfd.open(number)


def test_taken_pidfd_knows_its_process(rung: Facilities) -> None:
    """As it comes over a socket: a bare descriptor."""
    with Blocked() as process:
        here, there = socket.socketpair()
        with here, there:
            socket.send_fds(here, [b"x"], [process.pidfd])
            _, (fd,), _, _ = socket.recv_fds(there, 1, 1)
        with Pidfd.take_fd(fd) as pidfd:
            assert pidfd.pid == process.pid
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            process.end()
            assert pidfd.exit_info().returncode == -signal.SIGKILL


def test_taken_pidfd_of_a_reaped_process_has_no_number(rung: Facilities) -> None:
    with Blocked() as process:
        fd = os.dup(process.pidfd)
    with Pidfd.take_fd(fd) as pidfd:
        assert (pidfd.pid, pidfd.liveness()) == (0, GONE)
        with pytest.raises(AlreadyGone):
            pidfd.send_signal(signal.SIGKILL)


def test_what_is_no_pidfd_is_not_taken(rung: Facilities) -> None:
    with open(os.devnull, "rb") as file:
        with pytest.raises(InvalidArgument, match="not a pidfd"):
            Pidfd.take_fd(file.fileno())
        assert file.read() == b""  # still open, still the caller's
    with pytest.raises(InvalidArgument):
        Pidfd.take_fd(1_000_000)


def test_descriptor_is_close_on_exec_and_let_go(rung: Facilities) -> None:
    with Pidfd.open(os.getpid()) as pidfd:
        assert not os.get_inheritable(pidfd.fileno())
        fd = pidfd.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    forgotten = Pidfd.open(os.getpid())
    fd = forgotten.fileno()
    del forgotten
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
