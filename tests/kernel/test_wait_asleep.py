"""A waiter that sleeps in the kernel: what wakes it, and what it has learnt by then."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spurproc.core._native import ffi, lib
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.core.process import pidfd as pidfd_module
from spurproc.core.process.pidfd import Pidfd
from spurproc.errors import InvalidArgument, WaitTimeout
from tests.core_with import CoreWith
from tests.payload import Payload
from tests.relatives import Blocked, Foster

PayloadMaker = Callable[..., Payload]

pytestmark = [pytest.mark.needs_facility("pidfd_open")]


@contextmanager
def ringing(every_s: float) -> Iterator[list[int]]:
    """A signal that has a handler and comes again and again; the list grows with it, and one that grows long is an error."""
    rung: list[int] = []

    def ring(number: int, _: object) -> None:
        rung.append(number)
        assert len(rung) < 50

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, every_s, every_s)
    try:
        yield rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.needs_facility("pidfd_exit_info")
def test_one_sleep_brings_the_end_of_another_ones_child(payload: PayloadMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that saw the end waits for the reap too, and comes back with the kernel's record."""
    asleep, sleeps, answers = threading.Event(), [], []

    def sleep(*arguments: Any) -> int:
        sleeps.append(arguments)
        asleep.set()
        return int(lib.spur_pidfd_await(*arguments))

    monkeypatch.setattr(pidfd_module, "lib", CoreWith(spur_pidfd_await=sleep))
    monkeypatch.setattr(pidfd_module, "_REAP_AT_ONCE_MS", 30_000)  # however slow this machine is
    with Foster(payload, "exit", 9) as process, Pidfd.open(process.pid) as pidfd:
        waiter = threading.Thread(target=lambda: answers.append(pidfd.wait(reap_grace_s=30)))
        waiter.start()
        assert asleep.wait(10)
        process.end()
        process.reap()
        waiter.join()
    assert [(info.code, info.source) for info in answers] == [(9, ExitSource.PIDFD)]
    assert len(sleeps) == 1


def test_a_childs_reap_is_not_slept_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the waiter will do it."""
    monkeypatch.setattr(pidfd_module, "_REAP_AT_ONCE_MS", 60_000)
    with Blocked(5) as child, Pidfd.open(child.pid) as pidfd:
        timer = threading.Timer(0.02, child.release)
        timer.start()
        begun = time.monotonic()
        assert pidfd.wait(reap_grace_s=60).source is ExitSource.WAITED
        assert time.monotonic() - begun < 30
        timer.join()


def test_signals_that_are_handled_neither_end_nor_prolong_a_wait() -> None:
    """A deadline that began anew with each of them would never come."""
    with Blocked() as child, Pidfd.open(child.pid) as pidfd, ringing(every_s=0.05) as rung:
        begun = time.monotonic()
        with pytest.raises(WaitTimeout):
            pidfd.wait(timeout_s=0.3)
        assert time.monotonic() - begun >= 0.3
        assert rung


def test_a_signal_wakes_who_sleeps_for_the_reap(payload: PayloadMaker) -> None:
    """Its handler must not wait for a parent that may never reap. What was seen before is told all the same."""
    facts: Any = ffi.new("spur_pidfd_facts_t *", {"has_status": 1})
    with Foster(payload, "exit", 9) as process, Pidfd.open(process.pid) as pidfd:
        process.end()
        begun = time.monotonic()
        with ringing(every_s=0.02):
            assert lib.spur_pidfd_await(pidfd.fileno(), select.POLLIN, -1, 60_000, facts) == 1
        assert time.monotonic() - begun < 30
    assert not facts.has_status


@pytest.mark.needs_facility("pidfd_exit_info")
def test_close_in_the_middle_of_a_sleep_tells_no_other_ones_end(payload: PayloadMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread closes it, and a third gets the number for a process that was reaped: its record is not ours."""
    with Foster(payload, "exit", 9) as ended, Foster(payload, "exit", 7) as process:
        ended.end()
        ended.reap()
        pidfd, other = Pidfd.open(process.pid), ended.pidfd

        def closed_meanwhile(fd: int, *arguments: Any) -> int:
            pidfd.close()
            assert os.dup2(other, fd) == fd
            try:
                return int(lib.spur_pidfd_await(fd, *arguments))
            finally:
                os.close(fd)

        monkeypatch.setattr(pidfd_module, "lib", CoreWith(spur_pidfd_await=closed_meanwhile))
        answers: list[ExitInfo] = []
        with pytest.raises(InvalidArgument, match="it is closed"):
            answers.append(pidfd.wait(timeout_s=10))
        assert not answers
