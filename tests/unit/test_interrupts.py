"""Signals held while something gets its owner."""

from __future__ import annotations

import signal
from collections.abc import Iterable

import pytest

from spurproc.core import interrupts
from spurproc.core.interrupts import SignalsHeld


class Interrupted(Exception):
    """What a handler raises."""


def test_a_handler_that_was_due_leaves_the_mask_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, and raises, when the mask is set already: CPython looks for handlers at the end of that very call."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def block(how: int, signals: Iterable[int]) -> object:
        masked = signal.pthread_sigmask(how, signals)
        if how == signal.SIG_BLOCK and signals:
            raise Interrupted
        return masked

    monkeypatch.setattr(interrupts, "pthread_sigmask", block)
    try:
        with pytest.raises(Interrupted):
            SignalsHeld()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
