"""Kill plans that the agent walks itself, where no supervisor answers: they hold up nobody, and are begun once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spurproc import KillPlan, Liveness, Pidfd, Step
from spurproc.proto.runtime_id import BATCH_STEP
from tests.agents import Agents, step_of
from tests.spurd_program import AHEAD_VARIABLE
from tests.steps import WAIT_S

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


@contextmanager
def _walked(agent: Agents, told: Path, grace_s: float, *, by_its_supervisor: bool = False) -> Iterator[Pidfd]:
    """A deaf job, told to end; back once it has heard of it, and has no supervisor by then."""
    os.mkfifo(told)
    plan = KillPlan(steps=((signal.SIGTERM, grace_s), (signal.SIGKILL, None)))
    job = agent.submit(f"trap 'echo >>{told}' TERM; echo >{told}; while :; do sleep 0.1; done", kill_plan=plan)
    told.read_text()
    descriptor = agent.steps.descriptor_of(job, 1, BATCH_STEP)
    assert descriptor.leader is not None
    with descriptor.leader.open() as leader:
        if not by_its_supervisor:
            agent.steps.kill(descriptor.supervisor)
        agent.ask(f"cancel {job}")
        told.read_text()
        if by_its_supervisor:
            assert Step.open(agent.steps.path, step_of(job)).status().supervised, "the agent's answer came before this one"
            agent.steps.kill(descriptor.supervisor)
        yield leader


def test_neither_a_launch_nor_the_agents_end_waits_for_one(tmp_path: Path) -> None:
    with (
        Agents(tmp_path / "state", {"launch-concurrency": "1"}, cpus=2).start() as agent,
        _walked(agent, tmp_path / "told", 3600.0) as leader,
    ):
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        assert agent.stop() == 0
        leader.send_signal(signal.SIGKILL)


def test_an_agent_that_is_killed_again_and_again_begins_none_anew(tmp_path: Path) -> None:
    """Its time counts from when it was to end."""
    with Agents(tmp_path / "state").start() as agent, _walked(agent, tmp_path / "told", 4.0) as leader:
        given_up_s = time.monotonic() + WAIT_S
        while leader.liveness() is not Liveness.GONE:
            assert time.monotonic() < given_up_s, "it lives on"
            agent.kill()
            agent.start()
        assert agent.ended(1) == "killed by SIGKILL"


def test_one_whose_supervisor_died_on_the_way_is_walked_to_its_end(tmp_path: Path) -> None:
    with Agents(tmp_path / "state").start() as agent, _walked(agent, tmp_path / "told", 1.0, by_its_supervisor=True):
        assert agent.ended(1) == "killed by SIGKILL"


def test_a_time_limit_outlives_its_supervisor(tmp_path: Path) -> None:
    """And the agent. One that a supervisor keeps is that one's business, whatever the clock of the agent says."""
    with Agents(tmp_path / "state", {"inventory-interval-s": "1"}, cpus=3).start() as agent:
        limited, free, kept = (agent.submit("exec sleep 1000", time_limit_s=limit_s) for limit_s in (600.0, None, 600.0))
        for job in (limited, free, kept):
            agent.until(f"{job}.1", "running")
            agent.until_executed(job)
        for job in (limited, free):
            agent.steps.kill(agent.steps.descriptor_of(job, 1, BATCH_STEP).supervisor)
        agent.kill()
        agent.env[AHEAD_VARIABLE] = "1000"
        agent.start()
        assert agent.ended(limited) == "killed by SIGTERM"
        assert "its time limit is over" in agent.await_fact("is to end")
        later = agent.submit("exec sleep 1000", time_limit_s=0.1)
        assert agent.ended(later) == "killed by SIGTERM"
        assert [agent.ask("attempts")[f"{job}.1"] for job in (free, kept)] == [{"state": "running", "held": None}] * 2
        assert len(agent.facts("is to end")) == 1
