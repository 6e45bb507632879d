"""Keep an exception of a signal handler, KeyboardInterrupt above all, out of the moment in which something gets its owner."""

from __future__ import annotations

import signal

__all__ = ["SignalsHeld"]

_ALL = frozenset(signal.valid_signals())


class SignalsHeld:
    """From its making until `release` signals wait; what came meanwhile is handled there, where its exception can be caught.

    Of the calling thread only: one that the kernel gives to another thread still interrupts the main one. pthread_sigmask(3).
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: set[int] | None = set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
        except BaseException:  # of a handler that was due: the mask is set all the same
            self.release()
            raise

    def release(self) -> None:
        """Let signals through again. May be called twice; raises what their handlers raise."""
        before, self._before = self._before, None
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
