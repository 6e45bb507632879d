"""The process above pytest that takes in orphans, as a good init would.

With the runner itself as the subreaper, nobody could tell a child that the code under test forgot to reap from an orphan
that is nobody's to reap. So the run forks once at its start: the parent is the subreaper and does nothing but reap, the child
runs the tests. What is a child of the runner was started by the runner; what is a child of the reaper escaped from a test.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.pidfds import open_pidfd

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class _State:
    reaper_pid: int | None = None


def reaper_pid() -> int | None:
    """The pid of the reaper above this run: pinned, for it lives as long as the runner does. None before `split`."""
    return _State.reaper_pid


def split(clean_up: Callable[[], None]) -> None:
    """Fork; return in the child, which goes on to run the tests. The parent reaps and never returns (prctl(2), Linux 3.4).

    When the run has ended, however it did, the parent ends what is left of it and calls `clean_up`.
    """
    parent = os.getpid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    runner = os.fork()
    if runner != 0:
        code = _reap_until_end(runner)
        _end_orphans()
        clean_up()
        os._exit(code)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above could take effect
        os._exit(1)
    _State.reaper_pid = parent
    _take_interrupts()


def _take_interrupts() -> None:
    """A shell lets what it starts in the background ignore both, and all that this starts would inherit that."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def _prctl(option: int, argument: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"cannot set prctl option {option}")


def _reap_until_end(runner: int) -> int:
    pidfd = open_pidfd(runner)
    # A terminal sends these to the whole foreground group, the runner included: it decides, and its end is our end.
    for ignored in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended: what is left of the run is ended right now
            signal.pidfd_send_signal(pidfd, number)

    for passed_on in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(passed_on, pass_on)
    while True:
        pid, status = os.wait()
        if pid == runner:
            break
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end_orphans() -> None:
    """Kill and reap what outlived the run, so that no test run, however it died, leaves a process behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in children_of(os.getpid()):
                with contextlib.suppress(ProcessLookupError):  # our own unreaped child: the number cannot be anyone else's
                    pidfd = open_pidfd(pid)
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    os.close(pidfd)
            os.wait()


def children_of(pid: int) -> set[int]:
    """The direct children of every thread of `pid`, zombies included. Source: proc_pid_task_children(5), Linux 3.5."""
    found: set[int] = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found.update(map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split()))
    return found
