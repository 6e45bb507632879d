"""Which of two clocks names a child's start."""

from __future__ import annotations

import pytest

from spurproc.core.spawn import clone_call


@pytest.mark.parametrize(
    ("agreed", "by_clock", "by_stat", "result", "agrees"),
    [
        (None, 5, 5, 5, True),
        (None, 5, 6, 6, False),
        (None, 0, 6, 6, None),
        (None, 5, 0, 0, None),
        (True, 5, 0, 5, True),
        (True, 0, 6, 6, True),
        (False, 5, 6, 6, False),
        (False, 5, 0, 0, False),
    ],
)
def test_the_clock_is_believed_only_after_it_agreed(
    monkeypatch: pytest.MonkeyPatch, agreed: bool | None, by_clock: int, by_stat: int, result: int, agrees: bool | None
) -> None:
    """A host where /proc counts otherwise must not get identities that match nothing: 0 sends the launcher to /proc."""
    monkeypatch.setattr(clone_call, "_clock_agrees", agreed)
    assert clone_call._start_ticks(by_clock, by_stat) == result
    assert clone_call._clock_agrees is agrees
