"""`spurd serve` from end to end: a job runs once under its own supervisor, and is told truly, whatever becomes of the agent."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def test_a_job_runs_and_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    """Its output, its end, and no folder of it."""
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit("echo it runs as $SPURD_JOB_ID on $SPURD_CPUS; exit 7", stdout=str(tmp_path / "out-%j.%a"))
        assert agent.ended(job) == "exited 7"
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert (tmp_path / "out-1.1").read_text() == "it runs as 1 on 0\n"
        assert agent.ask("claims") == {}


def test_who_cannot_say_what_it_does_does_it_all_the_same(tmp_path: Path) -> None:
    """Its log goes to a disk that is full."""
    with Agents(tmp_path / "state") as agent:
        log, agent.log = agent.log, Path("/dev/full")
        agent.start()
        agent.log = log
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        agent.until("1.1", "none")
        assert agent.stop() == 0


def test_who_stops_to_read_what_it_says_does_not_stop_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 8192)
        with Agents(tmp_path / "state") as agent:
            log, agent.log = agent.log, tmp_path / "log"
            agent.start()
            agent.log = log
            for _ in range(50):
                agent.ask("drain")
                agent.ask("undrain")
            assert agent.ended(agent.submit("exit 3")) == "exited 3"
            assert agent.stop() == 0
        assert len(os.read(reader, 65536)) > 4096, "it was full"
    finally:
        os.close(reader)


def test_a_killed_agent_leaves_its_job_alone_and_finds_it_again(tmp_path: Path) -> None:
    """The same process, one output, its true end; and the CPUs that it was given are given to nobody else."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"echo once; read x <{gate.path}; exit 3", stdout=str(tmp_path / "out"))
        agent.until("1.1", "running")
        before, claims = agent.leader(job), agent.ask("claims")
        agent.kill()
        agent.start()
        assert agent.leader(job) == before
        assert agent.ask("claims") == claims == {"1.1": [0]}
        gate.open()
        assert agent.ended(job) == "exited 3"
        agent.until("1.1", "none")
        assert (tmp_path / "out").read_text() == "once\n"
        assert agent.folders() == NOTHING_LEFT


def test_starts_that_block_keep_nobody_waiting(tmp_path: Path) -> None:
    """Each stands at a FIFO that nobody reads; the job behind them runs, and each can be ended, by what is left of one thread."""
    os.mkfifo(tmp_path / "fifo")
    blocked = 14
    with Agents(tmp_path / "state", {"launch-concurrency": "1"}, cpus=blocked + 1).start() as agent:
        jobs = [agent.submit("exit 0", stdout=str(tmp_path / "fifo")) for _ in range(blocked)]
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        agent.ask(f"cancel {jobs[0]}")
        assert agent.ask(f"ended {jobs[0]}")["cancelled"]
