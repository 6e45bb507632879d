"""Kill plans that the agent walks itself, where no supervisor answers: they hold up nobody, and are begun once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spurproc import KillPlan, Pidfd
from spurproc.proto.runtime_id import BATCH_STEP
from tests.agents import Agents

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


@contextmanager
def _walked(agent: Agents, told: Path, grace_s: float) -> Iterator[Pidfd]:
    """A deaf job without a supervisor, told to end; back once it has heard of it."""
    os.mkfifo(told)
    plan = KillPlan(steps=((signal.SIGTERM, grace_s), (signal.SIGKILL, None)))
    job = agent.submit(f"trap 'echo >{told}' TERM; echo >{told}; while :; do sleep 0.1; done", kill_plan=plan)
    told.read_text()
    descriptor = agent.steps.descriptor_of(job, 1, BATCH_STEP)
    assert descriptor.leader is not None
    with descriptor.leader.open() as leader:
        agent.steps.kill(descriptor.supervisor)
        agent.ask(f"cancel {job}")
        told.read_text()
        yield leader


def test_neither_a_launch_nor_the_agents_end_waits_for_one(tmp_path: Path) -> None:
    with (
        Agents(tmp_path / "state", {"launch-concurrency": "1"}, cpus=2).start() as agent,
        _walked(agent, tmp_path / "told", 3600.0) as leader,
    ):
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        assert agent.stop() == 0
        leader.send_signal(signal.SIGKILL)
