"""A process held by a descriptor: it can never turn into another one, whatever becomes of its number.

Source: pidfd_open(2), pidfd_send_signal(2), waitid(2), linux/pidfd.h. Where the kernel refuses pidfd_open, the descriptor is
the folder /proc/PID, which pins the process as well but cannot be polled: waiters then look every 20 ms.
"""

from __future__ import annotations

import _thread
import os
import select
import struct
import time
from collections.abc import Generator
from errno import EAGAIN, ECANCELED, ECHILD, EINTR, EINVAL, ENOSYS
from types import TracebackType
from typing import Any, Self

from spurproc.core._native import check, ffi, lib
from spurproc.core.deadline import checked_seconds, deadline_after, left_s, shortest_s, whole_poll_ms
from spurproc.core.exit_info import ExitInfo, ExitSource, ResourceUsage
from spurproc.core.facilities import Facilities, check_call, vanished
from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd_number import pid_behind
from spurproc.core.vantage import STARVED, Vantage, raise_if_starved
from spurproc.errors import IdentityUnreadable, InvalidArgument, SignalRefused, Unsupported, WaitTimeout, from_errno

__all__ = ["REAP_GRACE_S", "SUBJECT", "Pidfd", "checked_pid", "checked_signal"]

REAP_GRACE_S = 3.0
"""How long a waiter gives a foreign parent to reap; only then does the kernel tell others how the process ended."""

SUBJECT = struct.Struct("=IiQQQQ16s")
"""spur_subject_t: kind, number, start_ticks, inode, pid_namespace, time_namespace, boot_id."""

_REAP_SOON_S = 0.05
_LOOK_S = 0.02
_LIVENESS = (Liveness.ALIVE, Liveness.GONE, Liveness.GONE, Liveness.GONE)
"""By the set of spur_pidfd_state_t."""

_REAP_AT_ONCE_MS = 10
"""How long the system call that saw the end sleeps on for the reap, since most parents reap at once: one wake-up less."""

_Step = tuple[int, float | None, int]
"""Poll events to wait for, timeout_s, and for how many ms a waiter that can may sleep on for the reap.

0 stands for POLLHUP, which poll(2) always reports, and is waited for no longer than said; anything else until the deadline.
"""
_Steps = Generator[_Step, "bool | ExitInfo", ExitInfo]
"""Yields what to wait for, is sent whether it came, or the record of the end; returns the end. Does no waiting of its own."""


class Pidfd:
    """One process, held. Owns its descriptor: `close()` it or use it as a context manager."""

    __slots__ = ("__weakref__", "_bits", "_exit", "_fd", "_pid", "_poll", "_reaped", "packed")

    packed: bytes
    """The form that `liveness_many` hands to the C core."""

    def __init__(self, fd: int, pid: int, bits: int) -> None:
        """Takes `fd`. For this package; others use `open` or `take_fd`."""
        self._fd = fd
        self._pid = pid
        self._bits = bits
        self._exit: ExitInfo | None = None
        self._reaped = False
        pollable = bits & lib.SPUR_FACILITY_PIDFD_OPEN
        self._poll = lib.spur_pidfd_poll if pollable else lib.spur_pidfd_poll_folder
        kind = lib.SPUR_SUBJECT_PIDFD if pollable else lib.SPUR_SUBJECT_FOLDER
        self.packed = SUBJECT.pack(kind, fd, 0, 0, 0, 0, b"")
        if not _hooked:
            _hooked.append(True)
            os.register_at_fork(after_in_child=_renew_lock)

    @classmethod
    def open(cls, pid: int) -> Self:
        """Hold the process that has the number `pid` now; a zombie too.

        A number proves nothing about who that is: use `ProcessIdentity.open` for a process met before. Source: pidfd_open(2),
        Linux 5.3; where it is refused, the folder `/proc/PID`. Does not block. Raises AlreadyGone,
        NotPermitted (hidden by hidepid, and no pidfd_open), InvalidArgument for a thread's number, Unsupported.
        """
        bits = Facilities.current().bits
        noun = f"process {checked_pid(pid)}"
        ret_fd = ffi.new("int *")
        if bits & lib.SPUR_FACILITY_PIDFD_OPEN:
            error = lib.spur_pidfd_open(pid, ret_fd)
        else:
            _refuse_foreign_procfs(noun)
            error = lib.spur_pidfd_open_folder(pid, ret_fd)
        if error == -EINVAL:
            raise InvalidArgument(f"cannot open {noun}: a thread, not a process")
        check_call(error, "open", noun)
        return cls(ret_fd[0], pid, bits)

    @classmethod
    def take_fd(cls, fd: int, pid: int | None = None) -> Self:
        """Take over a pidfd received or inherited (SCM_RIGHTS, SO_PEERPIDFD, CLONE_PIDFD).

        `pid` is the number behind it where the caller knows it: needed where the kernel no longer tells. Raises InvalidArgument,
        and leaves `fd` open, if it is no pidfd, one of a thread (PIDFD_THREAD), or another process's than `pid`.
        """
        known = None if pid is None else checked_pid(pid)
        number = pid_behind(fd)
        if known is not None and number not in (0, known):
            raise InvalidArgument(f"cannot take descriptor {fd}: it holds process {number}, not {known}")
        number = known or number
        return cls(fd, number, Facilities.current().bits | lib.SPUR_FACILITY_PIDFD_OPEN)

    @property
    def pid(self) -> int:
        """The number of the process in this pid namespace; it may be another's by now. 0: it has none here, or none any more."""
        return self._pid

    def fileno(self) -> int:
        """The descriptor, borrowed: readable (POLLIN) when the process has ended, POLLHUP when it was reaped."""
        if self._fd < 0:
            raise InvalidArgument(f"cannot use the pidfd of process {self._pid}: it is closed")
        return self._fd

    def close(self) -> None:
        """Let go. May be called twice."""
        with _lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                self.packed = SUBJECT.pack(lib.SPUR_SUBJECT_PIDFD, -1, 0, 0, 0, 0, b"")
                os.close(fd)

    def liveness(self) -> Liveness:
        """Whether it, or any thread of it, still runs. Never blocks.

        One poll(2), never UNKNOWN while the pidfd is open. Where pidfd_open is refused a look into its folder in /proc, and
        UNKNOWN where that is hidden by now or no descriptor is left to look with.
        """
        fd = self._fd
        state = self._poll(fd)
        if self._fd != fd or state < 0:
            self.fileno()  # closed, perhaps: what was polled may have been another's under the same number
            return Liveness.UNKNOWN
        return _LIVENESS[state]

    def send_signal(self, sig: int) -> None:
        """Send `sig` (1 to 64) to this process and to no other. Source: pidfd_send_signal(2), Linux 5.1. Does not block.

        Nothing happens to a zombie. Raises AlreadyGone after the reap, NotPermitted, SignalRefused for this process itself, for
        pid 1 and for one that has no number in this pid namespace, Unsupported where a sandbox refuses pidfd_send_signal(2):
        nothing is ever sent to a bare number.
        """
        number = checked_signal(sig)
        with _lock:
            error = lib.spur_pidfd_send_signal(self.fileno(), self._pid, number, self._bits)
        if error == -ECANCELED:
            if self._pid == 0 and self.liveness() is Liveness.GONE:
                raise from_errno(3, "signal", "a process that was reaped")
            raise SignalRefused(f"cannot signal process {self._pid}: it is this process, an init or out of this namespace")
        if error == -ENOSYS:
            why = dict(Facilities.current().refusals).get("pidfd_send_signal") or vanished(ENOSYS)
            raise Unsupported(f"cannot signal process {self._pid}: it needs pidfd_send_signal(2), which is refused here ({why})")
        check_call(error, "signal", f"process {self._pid}")

    def exit_info(self) -> ExitInfo:
        """What can be known now about its end; UNKNOWN while it runs. Reaps nothing and does not block.

        Of our child by waitid(2); of any other process, once it was reaped, by the kernel's record (linux/pidfd.h,
        PIDFD_INFO_EXIT, 6.15), and before that by its zombie, where the caller may trace it.
        """
        found: ExitInfo | int | None = self._exit or self._waited(keep=True)
        if isinstance(found, ExitInfo):
            return found
        if self.liveness() is Liveness.ALIVE:
            return ExitInfo.unknown("it still runs")
        if isinstance(found := self._exit or self._waited(keep=True), ExitInfo):  # our child, and it has ended since
            return found
        return self._record() or self._zombie() or ExitInfo.unknown(self._why_unknown())

    def wait(self, timeout_s: float | None = None, *, reap_grace_s: float = REAP_GRACE_S) -> ExitInfo:
        """Wait for the end and tell how it was. A child is reaped (WAITED); of any other process the kernel's record is read.

        The record needs the reap: after the end a foreign parent gets `reap_grace_s` for it; then the answer is the zombie's
        status where it may be read, else UNKNOWN with the reason. Raises WaitTimeout if the process still runs after `timeout_s`.
        Any number of threads may wait at once; KeyboardInterrupt and signal handlers work as usual.
        """
        deadline = deadline_after(timeout_s)
        steps = self._steps(_grace(reap_grace_s))
        try:
            events, step_s, reap_ms = next(steps)
            while True:
                came = self._until(events, _shorter(step_s, deadline), reap_ms)
                if not came and events and _shorter(None, deadline) == 0:
                    raise WaitTimeout(f"process {self._pid} still runs after {timeout_s} s")
                events, step_s, reap_ms = steps.send(came)
        except StopIteration as end:
            result: ExitInfo = end.value
            return result

    async def wait_async(self, *, reap_grace_s: float = REAP_GRACE_S) -> ExitInfo:
        """`wait` for a running asyncio loop; bound it with `asyncio.timeout`.

        No SIGCHLD handler and no thread; any number of tasks may wait at once; cancelling leaks nothing.
        """
        from spurproc.core.process.pidfd_asyncio import Waiter  # noqa: PLC0415 - asyncio is loaded for those who wait in it

        steps = self._steps(_grace(reap_grace_s))
        try:
            events, step_s, _ = next(steps)
            with Waiter(self.fileno(), self._look if self._folder else None) as waiter:
                while True:
                    events, step_s, _ = steps.send(await waiter.until(events, step_s))
        except StopIteration as end:
            result: ExitInfo = end.value
            return result

    def _steps(self, reap_grace_s: float) -> _Steps:
        self.fileno()
        while not isinstance(found := self._reap(), ExitInfo):
            if self.liveness() is not Liveness.GONE:  # what cannot be looked at is waited for as well
                came = yield select.POLLIN, None, self._reap_ms(found, reap_grace_s)
                if isinstance(came, ExitInfo):
                    return self._exit or came  # _exit: it became our child, and another thread was the one to reap
            elif found == -EAGAIN:  # our child has ended, and its tracer has to let go of it first: look again
                yield select.POLLPRI, _REAP_SOON_S, 0
            else:
                return (yield from self._steps_foreign(reap_grace_s))
        return found

    def _steps_foreign(self, reap_grace_s: float) -> _Steps:
        """It has ended and is not our child: its parent's reap makes the kernel's record readable."""
        if self._keeps_record:
            came = yield 0, min(_REAP_SOON_S, reap_grace_s), 0
            if not came and (zombie := self._zombie()):
                return zombie
            if not came:
                yield 0, reap_grace_s, 0
        found = self._record() or self._zombie() or self._exit  # _exit: another thread was the one to reap
        return found or ExitInfo.unknown(self._why_unknown())

    @property
    def facilities(self) -> int:
        """The bits for the C core; without PIDFD_OPEN the descriptor is the folder /proc/PID."""
        return self._bits

    @property
    def pollable(self) -> bool:
        """Whether poll(2) tells its end; else it is the folder /proc/PID, to be looked at again and again."""
        return not self._folder

    @property
    def _folder(self) -> bool:
        return not self._bits & lib.SPUR_FACILITY_PIDFD_OPEN

    @property
    def _keeps_record(self) -> bool:
        return bool(self._bits & lib.SPUR_FACILITY_PIDFD_EXIT_INFO) and not self._folder

    def _reap_ms(self, found: int, reap_grace_s: float) -> int:
        """A child's reap is ours to do, and only where there is a record is another's of use."""
        return int(min(_REAP_AT_ONCE_MS, reap_grace_s * 1000)) if found == -ECHILD and self._keeps_record else 0

    def _reap(self) -> ExitInfo | int:
        """Our child's end, once and for all waiters; -EAGAIN while it runs, -ECHILD for any other process.

        Kept before it is reaped: an exception of a signal handler, which may come up between any two lines, must not lose it.
        """
        with _lock:
            if self._exit is None:
                found = self._waited(keep=True)
                if not isinstance(found, ExitInfo):
                    return found
                self._exit = found
            if not self._reaped and self._fd >= 0:
                self._waited(keep=False)
                self._reaped = True
            return self._exit

    def _waited(self, *, keep: bool) -> ExitInfo | int:
        waited: Any = ffi.new("spur_waited_t *")
        with _lock:
            error = lib.spur_pidfd_wait(self.fileno(), self._pid, keep, self._bits, waited)
        if error in (-EAGAIN, -ECHILD):
            return error
        if -error in STARVED:  # to see with whether the number is its own still: nothing is known of an end yet
            return -EAGAIN
        check_call(error, "wait for", f"process {self._pid}")
        usage = ResourceUsage(**{name: getattr(waited, name) for name in ResourceUsage.__slots__})
        return ExitInfo.from_wait_status(waited.status, source=ExitSource.WAITED, usage=usage)

    def _record(self) -> ExitInfo | None:
        """The kernel's record of a reaped process."""
        if not self._keeps_record:
            return None
        facts: Any = ffi.new("spur_pidfd_facts_t *")
        if lib.spur_pidfd_info(self._fd, facts) < 0 or not facts.has_status:
            return None
        return ExitInfo.from_wait_status(facts.status, source=ExitSource.PIDFD)

    def _zombie(self) -> ExitInfo | None:
        """The status that a zombie shows to a reader with ptrace rights over it."""
        status = ffi.new("int *")
        if self._pid <= 0 or lib.spur_pidfd_zombie_status(self._fd, self._pid, self._bits, status) < 0:
            return None
        return ExitInfo.from_wait_status(status[0], source=ExitSource.ZOMBIE)

    def _why_unknown(self) -> str:
        if self.liveness() is not Liveness.GONE:
            return "it cannot be told from here whether it still runs"
        unreaped = lib.spur_pidfd_unreaped(self._fd, self._bits)
        if unreaped == 0:
            return "it ended, its parent has not reaped it and this process may not read its status"
        if -unreaped in STARVED:
            return "it ended, and nothing is left to look with whether it was reaped"
        if not self._bits & lib.SPUR_FACILITY_PIDFD_EXIT_INFO:
            return "it was reaped by another and this kernel keeps no record of that"
        return "it was reaped by another and the kernel has no record of its end"

    def _until(self, events: int, timeout_s: float | None, reap_ms: int) -> bool | ExitInfo:
        """Block until the descriptor shows `events` (0: POLLHUP), or for `timeout_s`; True if it came.

        With `reap_ms` the same call may bring the kernel's record, so that little is left to do for who wakes up late enough.
        """
        deadline = deadline_after(timeout_s)
        if self._folder:
            while not self._look(events):
                step_s = _shorter(_LOOK_S, deadline)
                if not step_s:
                    return False
                time.sleep(step_s)  # noqa: TID251 - this descriptor cannot be polled
            return True
        facts: Any = ffi.new("spur_pidfd_facts_t *")
        fd = self.fileno()
        while (came := lib.spur_pidfd_await(fd, events, whole_poll_ms(left_s(deadline)), reap_ms, facts)) == -EINTR:
            fd = self.fileno()  # a signal handler has run; it may have closed this
        if facts.has_status and fd == self._fd:  # else closed meanwhile, and the status another's under the same number
            return ExitInfo.from_wait_status(facts.status, source=ExitSource.PIDFD)
        return bool(check(came, "wait for", f"process {self._pid}"))

    def _look(self, events: int) -> bool:
        state = self._poll(self.fileno())
        return state > 0 and bool(state & (lib.SPUR_PIDFD_ENDED if events & select.POLLIN else lib.SPUR_PIDFD_REAPED))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def __repr__(self) -> str:
        return f"<Pidfd of process {self._pid}, {'closed' if self._fd < 0 else f'fd {self._fd}'}>"


_lock = _thread.RLock()
"""One for all pidfds, over what must not meet a close(), nor lose a status. Nothing blocks under it; handlers may enter again."""
_hooked: list[bool] = []


def _renew_lock() -> None:
    """In a forked child the thread that held it is not there any more."""
    global _lock  # noqa: PLW0603
    _lock = _thread.RLock()


def _refuse_foreign_procfs(noun: str) -> None:
    try:
        why = "" if Vantage.read().procfs_is_ours else "/proc shows another pid namespace"
    except IdentityUnreadable as error:
        raise_if_starved(error)
        why = str(error)
    if why:
        raise Unsupported(f"cannot open {noun}: pidfd_open is refused, and {why}")


def checked_pid(pid: object) -> int:
    """`pid` if it can be a process's number, else InvalidArgument."""
    if isinstance(pid, bool) or not isinstance(pid, int) or not 1 <= pid <= 0x7FFFFFFF:
        raise InvalidArgument(f"cannot be a pid: {pid!r}")
    return pid


def checked_signal(sig: object) -> int:
    """`sig` as a plain number from 1 to 64, else InvalidArgument. 0 is no signal: ask for the liveness instead."""
    if isinstance(sig, bool) or not isinstance(sig, int) or not 1 <= sig <= 64:
        raise InvalidArgument(f"cannot be a signal: {sig!r}")
    return int(sig)


def _shorter(step_s: float | None, deadline: float | None) -> float | None:
    return shortest_s(step_s, left_s(deadline))


def _grace(reap_grace_s: object) -> float:
    return max(0.0, checked_seconds("reap_grace_s", reap_grace_s))
