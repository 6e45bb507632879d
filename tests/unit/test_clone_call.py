"""What passes by itself is tried again, and which of two clocks names a child's start."""

from __future__ import annotations

import errno

import pytest

from spurproc.core._native import lib
from spurproc.core.spawn import clone_call
from spurproc.core.spawn.clone_call import CloneRequest, CloneResult, clone


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


def _refused(stage: int, error: int) -> CloneResult:
    return CloneResult(
        started=False,
        pid=-1,
        pidfd=-1,
        channel=-1,
        stage=stage,
        error=error,
        wait_status=None,
        is_child=True,
        start_ticks=0,
        inode=0,
    )


@pytest.mark.parametrize(
    ("stage", "error", "tries"),
    [
        (lib.SPUR_STAGE_CLONE, errno.EAGAIN, 3),
        (lib.SPUR_STAGE_EXEC, errno.ETXTBSY, 3),
        (lib.SPUR_STAGE_EXEC, errno.EAGAIN, 1),
        (lib.SPUR_STAGE_CLONE, errno.EPERM, 1),
    ],
)
def test_what_passes_by_itself_is_tried_again(monkeypatch: pytest.MonkeyPatch, stage: int, error: int, tries: int) -> None:
    """A full process table and a program that is still open for writing; nothing else."""
    others = [_refused(stage, error), _refused(stage, error), _refused(lib.SPUR_STAGE_EXEC, errno.ENOENT)]
    left = iter(others)
    monkeypatch.setattr(clone_call, "_clone_once", lambda _: next(left))
    assert clone(CloneRequest(plan=bytearray(), detach=False)) is others[tries - 1]
    assert len(list(left)) == 3 - tries
