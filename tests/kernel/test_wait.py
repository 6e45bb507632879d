"""Waiting for children and for others, and how the end is known."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from spurproc.core.exit_info import ExitInfo, ExitKind, ExitSource
from spurproc.core.facilities import Facilities
from spurproc.core.process import pidfd as pidfd_module
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.process.pidfd_asyncio import Waiter
from spurproc.errors import ExitUnknown, InvalidArgument, WaitTimeout
from tests.interruption import interrupted
from tests.payload import Payload
from tests.relatives import NOBODY, Blocked, Foster, in_fork, traced
from tests.rungs import RUNGS, without

PayloadMaker = Callable[..., Payload]
ENDS = [("exit", 7, 7), ("exit", 0, 0), ("signal", 9, -9), ("signal", 15, -15)]


@pytest.fixture(params=RUNGS, ids=lambda mask: f"without({mask})")
def rung(request: pytest.FixtureRequest) -> Iterator[Facilities]:
    """Each rung of the ladder in turn."""
    with without(request.param) as facilities:
        yield facilities


@pytest.fixture
def sigchld_ignored() -> Iterator[None]:
    """As a parent may have left it: the kernel reaps by itself."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_child_is_reaped_with_its_code_and_usage(rung: Facilities) -> None:
    with Blocked(7) as child, Pidfd.open(child.pid) as pidfd:
        child.end()
        info = pidfd.wait(timeout_s=10)
        assert (info.kind, info.code, info.source) == (ExitKind.EXITED, 7, ExitSource.WAITED)
        assert info.usage is not None
        assert info.usage.max_rss_bytes > 1_000_000
        assert pidfd.wait() is info
        assert pidfd.exit_info() is info
        with pytest.raises(ChildProcessError):
            os.waitpid(child.pid, 0)


def test_child_killed_by_signal(rung: Facilities) -> None:
    with Blocked() as child, Pidfd.open(child.pid) as pidfd:
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        info = pidfd.wait(timeout_s=10)
        assert (info.kind, info.signal, info.core_dumped, info.source) == (ExitKind.SIGNALED, 9, False, ExitSource.WAITED)


def test_interrupt_in_a_wait_loses_no_status(rung: Facilities, monkeypatch: pytest.MonkeyPatch) -> None:
    """KeyboardInterrupt may come up right behind the system call that tells the status: the next wait still knows it."""

    def interrupted(*_: object, **__: object) -> ExitInfo:
        raise KeyboardInterrupt

    with Blocked(7) as child, Pidfd.open(child.pid) as pidfd:
        child.end()
        monkeypatch.setattr(ExitInfo, "from_wait_status", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pidfd.wait(timeout_s=10)
        monkeypatch.undo()
        info = pidfd.wait(timeout_s=10)
        assert (info.code, info.source) == (7, ExitSource.WAITED)
        with pytest.raises(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)


@pytest.mark.parametrize("bad", [math.nan, "1", True, None, [1]])
def test_what_is_no_span_of_time_is_refused(bad: object) -> None:
    """A NaN above all: compared with it nothing is ever late."""
    with Blocked() as child, Pidfd.open(child.pid) as pidfd:
        with pytest.raises(InvalidArgument, match="reap_grace_s"):
            pidfd.wait(0, reap_grace_s=bad)  # type: ignore[arg-type]  # wrong on purpose
        if bad is not None:
            with pytest.raises(InvalidArgument, match="timeout_s"):
                pidfd.wait(bad)  # type: ignore[arg-type]  # wrong on purpose


def test_negative_grace_is_none(rung: Facilities, payload: PayloadMaker) -> None:
    """poll(2) takes a negative time as "for ever"."""
    with Foster(payload, "exit", 7) as process, Pidfd.open(process.pid) as pidfd:
        process.end()
        assert pidfd.wait(timeout_s=10, reap_grace_s=-1).source in (ExitSource.ZOMBIE, ExitSource.NONE)


def test_core_flag_is_the_kernels(tmp_path: Path) -> None:
    """Whatever the machine does with cores, we say what waitid says."""
    command = ["sh", "-c", 'ulimit -S -c "$(ulimit -H -c)"; kill -ABRT $$']
    process = subprocess.Popen(command, cwd=tmp_path)
    with Pidfd.open(process.pid) as pidfd:
        seen = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        info = pidfd.wait()
    process.wait()
    assert seen is not None
    assert (info.signal, info.core_dumped) == (seen.si_status, seen.si_code == os.CLD_DUMPED)


def test_running_process_times_out(rung: Facilities) -> None:
    with Blocked() as child, Pidfd.open(child.pid) as pidfd:
        for timeout_s in (0, -1, 0.01):
            with pytest.raises(WaitTimeout, match=f"process {child.pid} still runs"):
                pidfd.wait(timeout_s)
        assert pidfd.exit_info().kind is ExitKind.UNKNOWN
        assert pidfd.exit_info().reason == "it still runs"


@pytest.mark.parametrize("timeout_s", [1e12, math.inf])
def test_endless_timeouts_are_no_error(rung: Facilities, timeout_s: float) -> None:
    with Blocked(7) as child, Pidfd.open(child.pid) as pidfd:
        timer = threading.Timer(0.02, child.release)
        timer.start()
        assert pidfd.wait(timeout_s, reap_grace_s=timeout_s).code == 7
        timer.join()


def test_exit_info_of_a_zombie_child_reaps_nothing(rung: Facilities) -> None:
    with Blocked(3) as child, Pidfd.open(child.pid) as pidfd:
        child.end()
        for _ in range(2):
            assert (pidfd.exit_info().code, pidfd.exit_info().source) == (3, ExitSource.WAITED)
        assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT) is not None
        assert pidfd.wait().code == 3


def test_reaped_behind_our_back_is_never_zero(rung: Facilities) -> None:
    """Another part of the program waited first: ECHILD. The kernel's record has the truth, or nobody has."""
    with Blocked(7) as child, Pidfd.open(child.pid) as pidfd:
        child.reap()
        _told_or_unknown(rung, pidfd.wait(timeout_s=10), 7)
        _told_or_unknown(rung, pidfd.exit_info(), 7)


@pytest.mark.usefixtures("sigchld_ignored")
def test_sigchld_ignored_is_never_zero(rung: Facilities) -> None:
    """The kernel reaps at once, waitid says ECHILD, and the status is not 0."""
    with Blocked(7) as child, Pidfd.open(child.pid) as pidfd:
        signal.pidfd_send_signal(child.pidfd, signal.SIGTERM)
        info = pidfd.wait(timeout_s=10)
        if info.source is ExitSource.ZOMBIE:  # seen in the moment between its end and the kernel's reap
            assert info.returncode == -signal.SIGTERM
        else:
            _told_or_unknown(rung, info, -signal.SIGTERM)


def _told_or_unknown(rung: Facilities, info: ExitInfo, returncode: int) -> None:
    if rung.pidfd_exit_info and rung.pidfd_open:
        assert (info.returncode, info.source) == (returncode, ExitSource.PIDFD)
        return
    assert (info.kind, info.source) == (ExitKind.UNKNOWN, ExitSource.NONE)
    assert "reaped by another" in (info.reason or "")
    with pytest.raises(ExitUnknown):
        _ = info.returncode


@pytest.mark.parametrize(("how", "number", "returncode"), ENDS)
def test_foreign_process_that_is_reaped(rung: Facilities, payload: PayloadMaker, how: str, number: int, returncode: int) -> None:
    """Not our child. Its end is known from the kernel's record, once its parent has reaped it."""
    with Foster(payload, how, number) as process, Pidfd.open(process.pid) as pidfd:
        with pytest.raises(WaitTimeout):
            pidfd.wait(timeout_s=0)
        process.end()
        process.reap()
        _told_or_unknown(rung, pidfd.wait(timeout_s=10), returncode)


@pytest.mark.needs_root
@pytest.mark.parametrize(("how", "number", "returncode"), ENDS)
def test_foreign_zombie_is_read_with_rights(
    rung: Facilities, payload: PayloadMaker, how: str, number: int, returncode: int
) -> None:
    """A parent that never reaps hangs nobody: root reads the zombie."""
    with Foster(payload, how, number) as process, Pidfd.open(process.pid) as pidfd:
        process.end()
        info = pidfd.wait()
        assert (info.returncode, info.source) == (returncode, ExitSource.ZOMBIE)
        assert pidfd.exit_info().source is ExitSource.ZOMBIE


@pytest.mark.needs_root
@pytest.mark.parametrize(("how", "number"), [("exit", 7), ("exit", 0), ("signal", 9)])
def test_foreign_zombie_without_rights_is_unknown(rung: Facilities, payload: PayloadMaker, how: str, number: int) -> None:
    """Field 52 shows 0 to those without rights: it is not the exit code. And the grace ends."""
    with Foster(payload, how, number) as process, Pidfd.open(process.pid) as pidfd:
        process.end()
        for ask in (lambda: pidfd.wait(reap_grace_s=0.1), lambda: pidfd.wait(timeout_s=0), pidfd.exit_info):
            kind, reason = in_fork(lambda ask=ask: [ask().kind.value, ask().reason], uid=NOBODY)  # type: ignore[misc]
            assert kind == "unknown"
            assert "its parent has not reaped it" in reason


@pytest.mark.needs_facility("pidfd_exit_info")
@pytest.mark.parametrize(
    "wait", [Pidfd.wait, lambda pidfd, **grace: asyncio.run(pidfd.wait_async(**grace))], ids=["wait", "wait_async"]
)
def test_late_reap_within_the_grace_is_seen(
    payload: PayloadMaker, monkeypatch: pytest.MonkeyPatch, wait: Callable[..., ExitInfo]
) -> None:
    """A waiter that cannot read the zombie is woken by the reap itself: nobody reaps before it waits for all of the grace."""
    grace_s = 30.0

    def reaping(until: Callable[..., Any]) -> Callable[..., Any]:
        def reap_and_wait(waiter: object, events: int, timeout_s: float | None, *more: Any) -> Any:
            if timeout_s is not None and timeout_s > grace_s / 2:
                process.reap_soon()
            return until(waiter, events, timeout_s, *more)

        return reap_and_wait

    with Foster(payload, "exit", 9) as process, Pidfd.open(process.pid) as pidfd:
        process.end()
        monkeypatch.setattr(Pidfd, "_zombie", lambda _: None)
        monkeypatch.setattr(Pidfd, "_until", reaping(Pidfd._until))
        monkeypatch.setattr(Waiter, "until", reaping(Waiter.until))
        assert (wait(pidfd, reap_grace_s=grace_s).code, pidfd.exit_info().source) == (9, ExitSource.PIDFD)


@pytest.mark.needs_root
def test_child_held_by_a_tracer_times_out_and_does_not_spin(rung: Facilities) -> None:
    """It has ended, its pidfd is readable, and it cannot be reaped before the tracer has let go."""
    with Blocked(8) as child, Pidfd.open(child.pid) as pidfd:
        with traced(child.pid):
            child.release()
            busy = time.process_time()
            with pytest.raises(WaitTimeout):
                pidfd.wait(timeout_s=0.3)
            assert time.process_time() - busy < 0.15
        assert pidfd.wait(timeout_s=10).code == 8


def test_waiters_on_one_child_all_know(rung: Facilities) -> None:
    """One reaps, and all have its answer."""
    with Blocked(5) as child, Pidfd.open(child.pid) as pidfd:
        answers: list[ExitInfo] = []
        started = threading.Barrier(5)

        def wait() -> None:
            started.wait()
            answers.append(pidfd.wait(timeout_s=10))

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait()
        child.release()
        for thread in threads:
            thread.join()
        assert {(info.code, info.source) for info in answers} == {(5, ExitSource.WAITED)}
        assert len(answers) == 4


class WatchedLock:
    """A lock that says when somebody has to wait for it."""

    def __init__(self) -> None:
        self.waited_for = threading.Event()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


def test_waiter_that_comes_in_the_middle_of_a_reap_has_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look that keeps the status and the reap nobody else may take it away."""
    answers: list[ExitInfo] = []
    lock, read = WatchedLock(), ExitInfo.from_wait_status

    def wait_too() -> None:
        answers.append(pidfd.wait(timeout_s=10))
        lock.waited_for.set()  # or it did not have to

    second = threading.Thread(target=wait_too)

    def be_met_and_read(*status: Any, **more: Any) -> ExitInfo:
        if second.ident is None:
            second.start()
            assert lock.waited_for.wait(10)
        return read(*status, **more)

    with Blocked(5) as child, Pidfd.open(child.pid) as pidfd:
        child.end()
        monkeypatch.setattr(pidfd_module, "_lock", lock)
        monkeypatch.setattr(ExitInfo, "from_wait_status", be_met_and_read)
        answers.append(pidfd.wait(timeout_s=10))
        second.join()
    assert answers[0] is answers[1]


@pytest.mark.needs_facility("pidfd_exit_info")
def test_two_pidfds_of_one_child_agree() -> None:
    """The second finds no child any more, and asks the kernel."""
    with Blocked(5) as child, Pidfd.open(child.pid) as first, Pidfd.open(child.pid) as second:
        child.end()
        assert (first.wait().source, second.wait().source) == (ExitSource.WAITED, ExitSource.PIDFD)
        assert first.wait().code == second.wait().code == 5


def test_zombie_leader_is_waited_for(rung: Facilities, payload: PayloadMaker) -> None:
    """The main thread has exited, the process has not."""
    process = payload("main_thread_exits")
    process.wait_ready()
    with Pidfd.open(process.pid) as pidfd:
        with pytest.raises(WaitTimeout):
            pidfd.wait(timeout_s=0.01)
        process.release()
        assert pidfd.wait(timeout_s=10).code == 7


def test_signal_handler_runs_during_wait() -> None:
    """And what it raises ends the wait; the child can be waited for again."""

    class Alarm(Exception):
        pass

    with Blocked(1) as child, Pidfd.open(child.pid) as pidfd:
        with interrupted(Alarm), pytest.raises(Alarm):
            pidfd.wait()
        child.end()
        assert pidfd.wait().code == 1
