"""No listener of `spurproc-inspect watch` is left in the kernel however it ends; no signal but SIGKILL ends it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from spurproc.inspect.proc_connector import ProcConnector
from tests.inspect_program import TIMEOUT_S
from tests.payload import Payload
from tests.pidfds import wait_ended
from tests.proc_listeners import Requests, kernel_tells
from tests.watch_program import Watch

Start = Callable[..., Payload]


@pytest.mark.needs_proc_events
@pytest.mark.parametrize("how", ["end", "timeout", "SIGINT", "SIGTERM", "SIGQUIT", "SIGKILL", "broken pipe", "reader gone"])
def test_no_listener_is_left(payload: Start, how: str) -> None:
    """However it ends, the kernel is told to stop, once, and has no listener more than before."""
    job = payload("hold")
    job.wait_ready()
    before = kernel_tells()
    with ProcConnector() as connector, Watch(job.pid, "--timeout", "0" if how == "timeout" else "3600") as watch:
        requests = Requests(connector)
        watch.until("member")
        listener = held_listener(watch) if how.startswith("SIG") else None
        code = _end(watch, job, how)
        assert watch.process.wait(TIMEOUT_S) == code, watch.complaint()
        if listener is not None:
            wait_ended(listener)
        assert requests.seen() == ["listen", "ignore"]
    assert kernel_tells() is before


def held_listener(watch: Watch) -> int:
    """A pidfd of the child that listens."""
    return os.pidfd_open(watch.listener_pid())


def _end(watch: Watch, job: Payload, how: str) -> int:
    """End it so; the return code that this must give."""
    if how.startswith("SIG"):
        watch.signal(signal.Signals[how])
        return 130 if how == "SIGINT" else -signal.Signals[how]
    if how == "timeout":
        return 4
    if how == "end":
        job.release()
        return 0
    assert watch.process.stdout is not None
    watch.process.stdout.close()
    if how == "broken pipe":
        job.release()
    return 141


@pytest.mark.needs_proc_events
def test_a_killed_listener_leaves_its_request_to_the_watcher(payload: Start) -> None:
    job = payload("hold")
    job.wait_ready()
    before = kernel_tells()
    with ProcConnector() as connector, Watch(job.pid) as watch:
        requests = Requests(connector)
        watch.until("member")
        listener = held_listener(watch)
        signal.pidfd_send_signal(listener, signal.SIGKILL)
        wait_ended(listener)
        job.release()
        assert watch.rest() == 0
        assert requests.seen() == ["listen", "ignore"]
    assert kernel_tells() is before


@pytest.mark.needs_proc_events
def test_no_signal_but_sigkill_ends_the_listener(payload: Start) -> None:
    """Nor one to the watcher's group or session: it is in none of them. It is there to stop when the watcher is killed."""
    job = payload("hold")
    job.wait_ready()
    with ProcConnector() as connector, Watch(job.pid) as watch:
        requests = Requests(connector)
        watch.until("member")
        assert os.getsid(watch.listener_pid()) == os.getpgid(watch.listener_pid()) == watch.listener_pid()
        listener = held_listener(watch)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM):
            signal.pidfd_send_signal(listener, number)
        watch.signal(signal.SIGKILL)
        wait_ended(listener)
        assert requests.seen() == ["listen", "ignore"]


@pytest.mark.needs_proc_events
def test_the_listener_holds_nothing_of_the_watchers() -> None:
    """Not what was opened before the limit was lowered either: whoever reads such a pipe would wait for the listener."""
    reading, writing = os.pipe()
    high = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 500)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
    try:
        with ProcConnector() as connector:
            held = {os.readlink(path) for path in Path(f"/proc/{connector.listener_pid}/fd").iterdir()}
            assert os.readlink(f"/proc/self/fd/{high}") not in held
            assert len(held) == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in (reading, writing, high):
            os.close(fd)
