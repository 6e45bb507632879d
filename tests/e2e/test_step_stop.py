"""Ending a supervised step: its whole tree, and no earlier than its end is known."""

from __future__ import annotations

import pytest

from spurproc import ExitSource
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps


@pytest.mark.parametrize("turn", range(10))
def test_a_leader_killed_by_request_has_ended_before_its_tree_is_empty(steps: Steps, turn: int) -> None:
    """Its cgroup is empty as soon as it is a zombie: that alone is no end, for its supervisor has not asked it yet."""
    step = steps.launch(["cat", "/dev/zero"])
    step.terminate(KILL_AT_ONCE)
    end = step.wait(WAIT_S, completed=True)
    assert (end.signal, end.source) == (9, ExitSource.WAITED)
    assert steps.events(step) == ["gate_opening", "launched", "terminating", "exit_observed", "emptied"]
