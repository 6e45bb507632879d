"""A leader is handed over to the host before its gate opens, whatever the host has room for just then."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc import EventKind, ExitSource
from tests.asleep import await_sleep
from tests.descriptors import descriptors_left_of
from tests.pace import readable
from tests.steps import WAIT_S, Gate, Steps


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_host_that_has_no_room_for_it_is_the_witness_all_the_same(steps: Steps, tmp_path: Path, count: int) -> None:
    """Of a pidfd and a channel both, the second one, or none is lost on the way. Once there is room, the host asks by name."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script("exit 8"), start=False)
    before = steps.descriptor(step)
    with descriptors_left_of(before.host.pid, count):
        step.start()
        next(event for event in step.events(follow=True) if event.kind is EventKind.LAUNCHED)
        await_sleep(before.host.pid, "poll")  # it was woken before the gate opened, and sleeps again: it has taken what there was
        steps.kill(before.supervisor)
    gate.open()
    end = step.wait(WAIT_S, completed=True)
    assert (end.code, end.source) == (8, ExitSource.WAITED)


def test_its_end_is_not_lost_while_there_is_no_room(steps: Steps, tmp_path: Path) -> None:
    """Nobody reaps it before its end is recorded, though it is an orphan of the host by then."""
    gate = Gate(tmp_path / "gate")
    step = steps.launch(gate.script("exit 9"), start=False)
    before = steps.descriptor(step)
    with descriptors_left_of(before.host.pid, 0):
        step.start()
        next(event for event in step.events(follow=True) if event.kind is EventKind.LAUNCHED)
        await_sleep(before.host.pid, "poll")
        leader = steps.descriptor(step).leader
        assert leader is not None
        with leader.open() as held:
            steps.kill(before.supervisor)
            gate.open()
            assert readable(held.fileno(), WAIT_S)
    end = step.wait(WAIT_S, completed=True)
    assert (end.code, end.source) == (9, ExitSource.WAITED)
