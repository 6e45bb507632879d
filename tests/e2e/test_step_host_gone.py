"""A host that was killed is gone, although supervisors that it forked live on."""

from __future__ import annotations

from tests.steps import KILL_AT_ONCE, WAIT_S, Steps


def test_the_next_launch_does_not_wait_for_a_host_that_is_dead(steps: Steps) -> None:
    """A supervisor holds nothing of its host: neither the listener, at which nobody would answer, nor its lock."""
    step = steps.launch(["sleep", "1000"])
    steps.kill(steps.descriptor(step).host)
    assert steps.launch(["true"]).wait(WAIT_S).succeeded
    step.terminate(KILL_AT_ONCE)
    assert step.wait(WAIT_S).signal == 9
