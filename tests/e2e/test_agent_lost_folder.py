"""Step folders that somebody has removed while no agent was there: what was launched is not launched again."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from spurproc.core.vantage import read_boot_id
from tests.agents import Agents, step_of

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


@contextmanager
def _stopped(agent: Agents, job: int) -> Iterator[None]:
    """Its supervisor does not see what becomes of its folder."""
    with agent.steps.descriptor_of(job, 1, step_of(job).step_id).supervisor.open() as pidfd:
        pidfd.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            pidfd.send_signal(signal.SIGCONT)


def _forget_launch(agent: Agents, job: int) -> None:
    """The store is as if who launched it had not come to say so."""
    with closing(sqlite3.connect(agent.path / "agent.db")) as database, database:
        database.execute("UPDATE attempts SET launched = NULL WHERE job_id = ?", (job,))


def _remove_folders(agent: Agents, jobs: Sequence[int]) -> None:
    for job in jobs:
        shutil.rmtree(agent.path / "steps" / "runtime" / str(step_of(job)))


def test_what_was_launched_is_not_launched_again(tmp_path: Path) -> None:
    """One that runs, one that stands still, and two whose supervisors do not see it.

    What lives is held. Once it is gone that is known by what was noted when it was launched; of the last nothing was noted, and
    its host alone says that it was launched before.
    """
    hooks = {"epilog-argv": f"/bin/sh -c 'echo $SPURD_JOB_ID >>{tmp_path}/epilogs'"}
    with Agents(tmp_path / "state", hooks, cpus=4).start() as agent, ExitStack() as stopped:
        jobs = [agent.submit("echo ran; exec sleep 1000", stdout=str(tmp_path / "out-%j")) for _ in range(4)]
        for job in jobs:
            agent.until(f"{job}.1", "running")
            agent.until_executed(job)
        agent.ask("suspend 2.1")
        agent.until("2.1", "suspended")
        agent.kill()
        _forget_launch(agent, 1)
        agent.start()
        agent.kill()
        for job in (3, 4):
            stopped.enter_context(_stopped(agent, job))
        _forget_launch(agent, 4)
        _remove_folders(agent, jobs)
        agent.start()
        for name, why in (("3.1", "something of it may live"), ("4.1", "it was launched before")):
            agent.until(name, "held")
            assert why in agent.ask("attempts")[name]["held"]
            assert name in agent.ask("claims")
        stopped.close()
        assert [agent.ended(job).split(":")[0] for job in jobs[:3]] == ["unknown"] * 3
        for job in jobs[:3]:
            agent.until(f"{job}.1", "none")
        agent.kill()
        agent.start()
        agent.until("4.1", "held")
        assert list(agent.ask("claims")) == ["4.1"]
        assert [(tmp_path / f"out-{job}").read_text() for job in jobs] == ["ran\n"] * 4
        assert sorted((tmp_path / "epilogs").read_text().split()) == ["1", "2", "3"]


def test_one_of_which_nothing_is_noted_is_held_no_longer_than_its_boot(tmp_path: Path) -> None:
    """Its host has launched it before, and its folder is gone: as long as that boot lasts it may live, though nothing does."""
    with Agents(tmp_path / "state", cpus=1).start() as agent:
        agent.submit("exec sleep 1000")
        agent.until("1.1", "running")
        agent.until_executed(1)
        agent.kill()
        _forget_launch(agent, 1)
        with _stopped(agent, 1):
            _remove_folders(agent, [1])
            agent.start()
            agent.until("1.1", "held")
        agent.kill()
        with closing(sqlite3.connect(agent.path / "agent.db")) as database, database:
            (noted,) = database.execute("SELECT launched FROM attempts").fetchone()
            assert noted == f"boot {read_boot_id()}".encode()
            database.execute("UPDATE attempts SET launched = ?", (noted[:-4] + b"none",))
        agent.start()
        assert agent.ended(1).startswith("unknown: its records were removed")
        agent.until("1.1", "none")
        assert agent.ask("claims") == {}
