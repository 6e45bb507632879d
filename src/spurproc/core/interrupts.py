"""Keep an exception of a signal handler, KeyboardInterrupt above all, out of the moment in which something gets its owner."""

from __future__ import annotations

# Beneath `signal`, which makes an enum of each signal of the old mask, at every call: 80 us where all were blocked.
from _signal import (  # type: ignore[import-not-found]  # no stub
    SIG_BLOCK,
    SIG_SETMASK,
    pthread_sigmask,
    valid_signals,
)

__all__ = ["SignalsHeld"]

_ALL = frozenset(valid_signals())


class SignalsHeld:
    """From its making until `release` signals wait; what came meanwhile is handled there, where its exception can be caught.

    Of the calling thread only: one that the kernel gives to another thread still interrupts the main one. pthread_sigmask(3).
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: set[int] | None = pthread_sigmask(SIG_BLOCK, ())
        try:
            pthread_sigmask(SIG_BLOCK, _ALL)
        except BaseException:  # of a handler that was due: the mask is set all the same
            self.release()
            raise

    def release(self) -> None:
        """Let signals through again. May be called twice; raises what their handlers raise."""
        before, self._before = self._before, None
        if before is not None:
            pthread_sigmask(SIG_SETMASK, before)
