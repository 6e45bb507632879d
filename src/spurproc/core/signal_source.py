"""Signals as a descriptor, for a process whose one loop waits for everything. signalfd(2)"""

from __future__ import annotations

import os
from collections.abc import Iterable

from spurproc.core._native import check, ffi, lib

__all__ = ["SignalSource"]

_INFO_BYTES = 128  # struct signalfd_siginfo; its first field is the signal
_READ_BYTES = 16 * _INFO_BYTES


class SignalSource:
    """From its making on `signals` are blocked in this thread, and read here. Owns its descriptor.

    Each stands for any number of the same kind that came before it was read. A fork shares the descriptor and has the mask.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        mask = 0
        for number in signals:
            mask |= 1 << (number - 1)
        fd = ffi.new("int *")
        check(lib.spur_signals_open(mask, fd), "open", "a descriptor for signals")
        self._fd: int = fd[0]

    def fileno(self) -> int:
        """Readable when a signal is pending; borrowed."""
        return self._fd

    def read(self) -> set[int]:
        """Which are pending; they are not afterwards. Does not block."""
        try:
            content = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return set()
        return {int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), _INFO_BYTES)}

    def close(self) -> None:
        """Let go; what it blocked stays blocked. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
