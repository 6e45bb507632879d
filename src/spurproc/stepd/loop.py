"""One thread that waits for descriptors and times, and for nothing else."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from spurproc.core.observation import Liveness
from spurproc.core.process.pidfd import Pidfd

__all__ = ["Loop"]

_WAIT_LAST_S = 2_000_000.0
"""epoll_wait(2) counts milliseconds in an int. Who waits longer looks at the clock once in between."""
_LOOK_S = 0.02


class Loop:
    """An epoll and a few timers. Owns the epoll; what is watched is borrowed. epoll(7)"""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}
        self._stopped = False

    def watch(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback` with the events that are seen on `fd`; again under the same number: change what is watched."""
        if fd in self._callbacks:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._callbacks[fd] = callback

    def forget(self, fd: int) -> None:
        """Watch it no more; before it is closed, for a copy elsewhere would keep it watched."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def watch_end(self, pidfd: Pidfd, callback: Callable[[], None], *, reap_grace_s: float = 0) -> None:
        """Call `callback` once, when that process has ended and was reaped as well, or `reap_grace_s` after its end.

        Where pidfd_open(2) is refused, what holds a process cannot be polled: it is looked at every 20 ms, and its end is enough.
        """

        def ended() -> None:
            self.forget_end(pidfd)
            callback()

        def ended_at_least() -> None:
            if reap_grace_s == 0:
                ended()
                return
            self.watch(pidfd.fileno(), 0, lambda _: ended())  # EPOLLHUP comes unasked for, from Linux 6.9 on
            self.at(f"pidfd {pidfd.fileno()}", reap_grace_s, ended)

        def look() -> None:
            if pidfd.liveness() is Liveness.GONE:
                callback()
            else:
                self.at(f"pidfd {pidfd.fileno()}", _LOOK_S, look)

        if pidfd.pollable:
            self.watch(pidfd.fileno(), select.EPOLLIN, lambda _: ended_at_least())
        else:
            look()

    def forget_end(self, pidfd: Pidfd) -> None:
        """Watch it no more; before it is closed."""
        self.cancel(f"pidfd {pidfd.fileno()}")
        self.forget(pidfd.fileno())

    def at(self, name: str, after_s: float, callback: Callable[[], None]) -> None:
        """Call `callback` once, `after_s` from now; a timer of the same name is replaced.

        Whatever is readable by then comes first: with 0 it is called after the next look at the descriptors.
        """
        self._timers[name] = (time.monotonic() + after_s, callback)

    def cancel(self, name: str) -> None:
        """Drop a timer; one that is not there is fine."""
        self._timers.pop(name, None)

    def stop(self) -> None:
        """Return from `run` after this turn."""
        self._stopped = True

    def run(self) -> None:
        """Wait and call back until stopped. Without a timer nothing wakes it but what is watched."""
        while not self._stopped:
            ready = self._epoll.poll(self._wait_s())
            now = time.monotonic()
            for fd, events in ready:
                callback = self._callbacks.get(fd)
                if callback is not None and not self._stopped:  # a callback before it may have closed this one
                    callback(events)
            self._run_due(now)

    def _wait_s(self) -> float | None:
        if not self._timers:
            return None
        left_s = min(due for due, _ in self._timers.values()) - time.monotonic()
        return min(max(0.0, left_s), _WAIT_LAST_S)

    def _run_due(self, now: float) -> None:
        for name, (due, callback) in list(self._timers.items()):
            if due <= now and not self._stopped and self._timers.get(name) == (due, callback):
                del self._timers[name]
                callback()

    def close(self) -> None:
        """Close the epoll. May be called twice."""
        self._epoll.close()
