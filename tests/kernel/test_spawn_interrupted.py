"""A signal handler that raises at any moment of `spawn`: no process and no descriptor of the job is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from spurproc.core.spawn import spawn as spawn_module
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn
from tests.spawning import in_child, no_child_is_left

SOURCES = str(Path(spawn_module.__file__).parent.parent)
MOMENTS = 120


class Interrupted(Exception):
    """What the handler raises."""


class Interrupter:
    """Sends this process SIGUSR1 before one traced line; counts the lines."""

    def __init__(self, moment: int) -> None:
        self.seen = 0
        self._moment = moment

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """See sys.settrace."""
        if not frame.f_code.co_filename.startswith(SOURCES) or frame.f_code.co_name in ("__del__", "close", "abandon"):
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self._moment:
                signal.raise_signal(signal.SIGUSR1)
        return self


def interrupted_spawn(plan: SpawnPlan, moment: int) -> int:
    """How many lines there were. Asserts that nothing is left if it was interrupted, and reaps the job if it was not."""
    before = set(os.listdir("/proc/self/fd"))
    interrupter = Interrupter(moment)
    sys.settrace(interrupter)
    try:
        spawned = spawn(plan, timeout_s=10)
    except Interrupted:
        sys.settrace(None)
        no_child_is_left()
        assert set(os.listdir("/proc/self/fd")) <= before
        return interrupter.seen
    finally:
        sys.settrace(None)
    spawned.pidfd.wait()
    spawned.pidfd.close()
    return interrupter.seen


@pytest.mark.needs_facility("pidfd_send_signal")
@pytest.mark.parametrize("fields", [{}, {"cwd": "/"}], ids=["plain", "program"])
def test_an_interrupt_leaves_nothing(fields: dict[str, Any]) -> None:
    """At moments spread over the whole of it."""

    def sweep() -> None:
        def handler(*_: object) -> None:
            raise Interrupted

        signal.signal(signal.SIGUSR1, handler)
        plan = SpawnPlan(argv=["/bin/true"], **fields)
        interrupted_spawn(plan, 0)  # what is made once for the process is made
        lines = interrupted_spawn(plan, 0)
        for moment in sorted({1 + step * lines // MOMENTS for step in range(MOMENTS)}):
            interrupted_spawn(plan, moment)

    in_child(sweep, 60)
