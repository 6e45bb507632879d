"""The boot after an orderly reboot behind `scene`: everybody got SIGTERM, so all ends are true; what is owed is done, once."""

from __future__ import annotations

import signal

from spurproc import ExitInfo, ExitKind, RuntimeId
from tests.steps import Steps
from tests.vm.reboot.next_boot import completed, ends_stay_and_all_of_it_goes, hooks_have_run_once, nothing_lives, were_waited_for
from tests.vm.reboot.scene import EMPTYING, ENDED, EXTERN, IN_EPILOG, IN_PROLOG, RUNNING, UNACKNOWLEDGED

SEEN = {
    ENDED: (3, None),
    UNACKNOWLEDGED: (None, signal.SIGKILL),
    RUNNING: (None, signal.SIGTERM),
    EMPTYING: (5, None),
    IN_EPILOG: (7, None),
}
"""Code and signal of every leader there was."""


def test_all_of_it_is_told_and_done_and_gone(steps: Steps) -> None:
    """One after the other, for each is what the one before has made of it."""
    nothing_lives()
    ends = completed()
    ends_are_true(ends)
    hooks_have_run_once()
    ends_stay_and_all_of_it_goes(ends)


def ends_are_true(ends: dict[RuntimeId, ExitInfo]) -> None:
    were_waited_for(ends, SEEN)
    for runtime_id in (IN_PROLOG, EXTERN):
        assert ends[runtime_id].kind is ExitKind.NOT_STARTED, runtime_id
