"""A process held: whom a signal reaches, and whom it never does."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from spurproc.core._native import ffi, lib
from spurproc.core.facilities import Facilities
from spurproc.core.observation import Liveness
from spurproc.core.process import pidfd as pidfd_module
from spurproc.core.process.pidfd import Pidfd
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted, SignalRefused, Unsupported
from tests.core_with import CoreWith
from tests.payload import Payload
from tests.pidfds import SPARED_FLAGS, open_pidfd
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


def test_a_running_process_shows_no_status(payload: PayloadMaker) -> None:
    """Field 52 of its stat is 0 until it ends, and no exit code."""
    process = payload("hold")
    process.wait_ready()
    with Pidfd.open(process.pid) as pidfd:
        told = lib.spur_pidfd_zombie_status(pidfd.fileno(), process.pid, Facilities.current().bits, ffi.new("int *"))
        assert told == -errno.EAGAIN


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


def test_what_is_another_processes_is_not_taken(rung: Facilities) -> None:
    """The caller's word for the number is checked: else the guard could be passed, and a readable pipe would read as GONE."""
    read, write = os.pipe()
    os.close(write)
    with Blocked() as process:
        for fd, number in ((read, process.pid), (process.pidfd, os.getpid()), (-1, process.pid), (True, 1), ("0", 1), (2**40, 1)):
            with pytest.raises(InvalidArgument, match="cannot take descriptor"):
                Pidfd.take_fd(fd, number)  # type: ignore[arg-type]  # wrong on purpose
        own = open_pidfd(os.getpid())
        with pytest.raises(InvalidArgument, match=f"it holds process {os.getpid()}, not {process.pid}"):
            Pidfd.take_fd(own, process.pid)
        os.close(own)
    os.close(read)


@pytest.mark.needs_kernel(6, 9)
def test_pidfd_of_a_thread_is_not_taken(rung: Facilities) -> None:
    """It ends with the thread, while the process may live on."""
    fd = os.pidfd_open(os.getpid(), os.O_EXCL | SPARED_FLAGS)
    with pytest.raises(InvalidArgument, match="the pidfd of a thread"):
        Pidfd.take_fd(fd)
    os.close(fd)


def test_closed_is_said_and_never_answers_for_the_next_owner(rung: Facilities) -> None:
    with Blocked() as process:
        pidfd = Pidfd.open(process.pid)
        pidfd.close()
        pidfd.close()
        for use in (pidfd.fileno, pidfd.liveness, pidfd.exit_info, pidfd.wait, lambda: pidfd.send_signal(signal.SIGKILL)):
            with pytest.raises(InvalidArgument, match="it is closed"):
                use()


def test_close_in_the_middle_of_a_look_is_seen() -> None:
    """Another thread closes it, and a third gets the number for another process: what was polled is not told as ours."""
    with Blocked() as ended, Blocked() as process:
        ended.end()
        pidfd = Pidfd.open(process.pid)
        poll = pidfd._poll

        def closed_meanwhile(fd: int) -> int:
            pidfd.close()
            assert os.dup2(ended.pidfd, fd) == fd
            try:
                return int(poll(fd))
            finally:
                os.close(fd)

        pidfd._poll = closed_meanwhile
        with pytest.raises(InvalidArgument, match="it is closed"):
            pidfd.liveness()


@pytest.mark.needs_facility("pidfd_send_signal")
def test_close_in_the_middle_of_a_signal_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the number of the descriptor could be another process's pidfd by the time that the kernel looks at it."""
    seen: list[tuple[bool, int]] = []

    def signal_and_see(fd: int, pid: int, number: int, bits: int) -> int:
        closer.start()
        closer.join(0.1)
        seen.append((closer.is_alive(), os.fstat(fd).st_ino))
        return int(lib.spur_pidfd_send_signal(fd, pid, number, bits))

    with Blocked() as process, Pidfd.open(process.pid) as pidfd:
        inode = os.fstat(pidfd.fileno()).st_ino
        closer = threading.Thread(target=pidfd.close)
        monkeypatch.setattr(pidfd_module, "lib", CoreWith(spur_pidfd_send_signal=signal_and_see))
        pidfd.send_signal(signal.SIGCONT)
        closer.join()
    assert seen == [(True, inode)]


def test_signal_handler_may_enter_again() -> None:
    """A handler runs between any two lines, also those of a wait: it may use the same pidfd."""
    with Blocked() as process, Pidfd.open(process.pid) as pidfd, pidfd_module._lock:
        signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
        os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED | os.WNOWAIT)
        assert pidfd.exit_info().signal == signal.SIGKILL


def test_fork_while_another_thread_waits() -> None:
    """The forked child has no such thread: what that held is not held for ever."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with pidfd_module._lock:
            entered.set()
            leave.wait()

    with Blocked() as process, Pidfd.open(process.pid) as pidfd:
        holder = threading.Thread(target=hold)
        holder.start()
        entered.wait()

        def child() -> str:
            signal.alarm(10)
            return pidfd.exit_info().kind.value

        assert in_fork(child) == "unknown"
        leave.set()
        holder.join()


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
