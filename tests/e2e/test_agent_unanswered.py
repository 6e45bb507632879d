"""A supervisor that lives and says nothing, of a job that has ended or is to end: it is named, and ended, and the job is over."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from spurproc import KillPlan, Pidfd
from spurproc.proto.runtime_id import BATCH_STEP
from spurproc.version import VERSION
from tests.agents import NOTHING_LEFT, Agents
from tests.spurd_program import HUNG_VARIABLE

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


@contextmanager
def _hung(path: Path, script: str, **more: Any) -> Iterator[tuple[Agents, Pidfd]]:
    """An agent with one job, whose supervisor stands still, and its leader. What takes a minute takes half a second."""
    agents = Agents(path / "state", {"inventory-interval-s": "1"})
    agents.env[HUNG_VARIABLE] = "0.5"
    with agents.start() as agent:
        agent.submit(script, kill_plan=KillPlan(steps=((signal.SIGTERM, 0.5), (signal.SIGKILL, None))), **more)
        agent.until("1.1", "running")
        agent.until_executed(1)
        descriptor = agent.steps.descriptor_of(1, 1, BATCH_STEP)
        assert descriptor.leader is not None
        with descriptor.leader.open() as leader, descriptor.supervisor.open() as supervisor:
            supervisor.send_signal(signal.SIGSTOP)
            yield agent, leader


def _over(agent: Agents, end: str) -> None:
    assert "does not answer" in agent.await_fact("held up")
    agent.await_fact("ended a supervisor")
    assert agent.ended(1) == end
    agent.until("1.1", "none")
    assert (agent.ask("problems"), agent.ask("claims"), agent.folders()) == ([], {}, NOTHING_LEFT)


def test_one_whose_job_has_ended_is_named_and_ended(tmp_path: Path) -> None:
    """Its host records the end, as the parent that it is of it by then."""
    with _hung(tmp_path, "exec sleep 1000") as (agent, leader):
        leader.send_signal(signal.SIGUSR1)
        _over(agent, "killed by SIGUSR1")


def test_one_whose_job_is_cancelled_holds_that_up_no_longer(tmp_path: Path) -> None:
    """The agent walks the plan itself."""
    with _hung(tmp_path, "trap '' TERM; while :; do sleep 0.1; done") as (agent, _):
        agent.ask("cancel 1")
        _over(agent, "killed by SIGKILL")


def test_a_host_that_says_nothing_is_named_and_holds_up_no_agent(tmp_path: Path) -> None:
    """Also where as many wait for it as may: it alone tells the end, once it goes on."""
    with _hung(tmp_path, "exec sleep 1000") as (agent, leader):
        descriptor = agent.steps.descriptor_of(1, 1, BATCH_STEP)
        with descriptor.host.open() as host, ExitStack() as waiting:
            host.send_signal(signal.SIGSTOP)
            with suppress(BlockingIOError):
                for _ in range(1000):
                    end = waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                    end.setblocking(False)
                    end.connect(str(agent.steps.path / f"host-{VERSION}" / "host.sock"))
            agent.steps.kill(descriptor.supervisor)
            leader.send_signal(signal.SIGUSR1)
            assert f"its host, process {descriptor.host.pid}, has not seen to it" in agent.await_fact("held up")
            host.send_signal(signal.SIGCONT)
        assert agent.ended(1) == "killed by SIGUSR1"
        agent.until("1.1", "none")
        assert agent.ask("problems") == []


def test_one_that_keeps_no_time_limit_is_not_needed_for_it(tmp_path: Path) -> None:
    """The agent ends its job."""
    with _hung(tmp_path, "exec sleep 1000", time_limit_s=1.5) as (agent, _):
        _over(agent, "killed by SIGTERM")
