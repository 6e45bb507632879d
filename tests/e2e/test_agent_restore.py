"""An agent whose databases were restored from a backup, and are older than what has run since: nothing runs twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents, step_of
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_BOTH = ("agent.db", "controller.db")


def _copy_databases(source: Path, target: Path, names: Sequence[str] = _BOTH) -> None:
    """As a backup has them, and as one is restored."""
    target.mkdir(exist_ok=True)
    for name in names:
        for suffix in ("-wal", "-shm"):
            (target / f"{name}{suffix}").unlink(missing_ok=True)
        with sqlite3.connect(source / name) as one, sqlite3.connect(target / name) as other:
            one.backup(other)
        one.close()
        other.close()
        (target / name).chmod(0o600)


def test_an_older_database_runs_nothing_twice(tmp_path: Path) -> None:
    """Both are of a time before the job was submitted: its step is found, keeps its CPUs, and no job gets its id again."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.stop()
        _copy_databases(agent.path, tmp_path / "backup")
        agent.start()
        agent.submit(f"echo >>{tmp_path}/ran; read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        leader = agent.leader(1)
        agent.kill()
        _copy_databases(tmp_path / "backup", agent.path)
        agent.start()
        assert agent.leader(1) == leader
        assert agent.ask("claims") == {"1.1": [0]}
        other = agent.submit("exit 5")
        assert other == 2
        assert agent.ended(other) == "exited 5"
        assert agent.ask("job 1") == ["dispatched", 1, False]
        gate.open()
        assert agent.ended(1) == "exited 6"
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert (tmp_path / "ran").read_text() == "\n"
        agent.ask("requeue 1")  # what its step told is too little to run it by
        assert agent.ended(agent.submit("exit 4")) == "exited 4"
        assert agent.ask("job 1") == ["held", 2, False]
        assert (tmp_path / "ran").read_text() == "\n"


def test_a_lost_queue_knows_a_job_again_by_the_agents_store(tmp_path: Path) -> None:
    """Who waits is told how it ended; and it can be run again, for the store has all of it."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", cpus=2).start() as agent:
        agent.submit(f"echo >>{tmp_path}/ran; read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.kill()
        for file in agent.path.glob("controller.db*"):
            file.unlink()
        agent.start()
        assert agent.ask("jobs") == [1]
        assert agent.ask("job 1") == ["dispatched", 1, False]
        gate.open()
        assert agent.ended(1) == "exited 6"
        agent.until("1.1", "none")
        assert agent.ask("requeue 1") == "1.2"
        agent.until("1.2", "running")
        gate.open()
        assert agent.ended(1) == "exited 6"
        assert (tmp_path / "ran").read_text() == "\n\n"


def test_a_database_of_before_the_dispatch_runs_it_no_second_time(tmp_path: Path) -> None:
    """The job is queued in it: what ran counts, and its end is the job's."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.ask("drain")
        job = agent.submit(f"echo >>{tmp_path}/ran; read x <{gate.path}; exit 6")
        _copy_databases(agent.path, tmp_path / "backup")
        agent.ask("undrain")
        agent.until("1.1", "running")
        agent.kill()
        _copy_databases(tmp_path / "backup", agent.path)
        agent.start()
        gate.open()
        agent.ask("undrain")
        assert agent.ended(job) == "exited 6"
        agent.until("1.1", "none")
        assert (tmp_path / "ran").read_text() == "\n"


@pytest.mark.parametrize("restored", [_BOTH, ("agent.db",), ("controller.db",)], ids=["both", "agent", "controller"])
def test_what_has_run_and_left_no_folder_is_not_run_again(tmp_path: Path, restored: Sequence[str]) -> None:
    """One that ran at the time of the backup, and one that was queued: where nobody knows of its end, that is what is said."""
    gate, hooks = Gate(tmp_path / "gate"), {"epilog-argv": f"/bin/sh -c 'echo $SPURD_JOB_ID >>{tmp_path}/epilog'"}
    with Agents(tmp_path / "state", hooks, cpus=1).start() as agent:
        jobs = [agent.submit(f"echo $SPURD_JOB_ID >>{tmp_path}/ran; read x <{gate.path}; exit 6") for _ in range(2)]
        agent.until("1.1", "running")
        _copy_databases(agent.path, tmp_path / "backup")
        gate.open()
        assert agent.ended(1) == "exited 6"
        agent.until("2.1", "running")
        gate.open()
        assert agent.ended(agent.submit("exit 5")) == "exited 5"
        for name in ("1.1", "2.1", "3.1"):
            agent.until(name, "none")
        agent.kill()
        _copy_databases(tmp_path / "backup", agent.path, restored)
        agent.start()
        known = "controller.db" not in restored
        assert [agent.ended(job).startswith("exited 6" if known else "unknown: ") for job in jobs] == [True, True]
        assert any("older than what has run" in problem for problem in agent.ask("problems"))
        agent.kill()
        agent.start()
        fourth = agent.submit("exit 4")
        assert fourth == 4
        assert agent.ended(fourth) == "exited 4"
        for job in (1, 2, 4):
            agent.until(f"{job}.1", "none")
        assert (tmp_path / "ran").read_text() == "1\n2\n"
        assert (tmp_path / "epilog").read_text() == "1\n2\n3\n4\n"
        assert agent.folders() == NOTHING_LEFT
        assert agent.ask("claims") == {}


def test_a_lost_queue_gives_no_id_again_that_the_store_knows(tmp_path: Path) -> None:
    """One whose report nobody has taken, and that has left no step folder: its end is no other job's."""
    (tmp_path / "unreachable").touch()
    with Agents(tmp_path / "state", odd=True).start(prolog_argv="/bin/false") as agent:
        agent.submit("exit 3")
        agent.until("1.1", "reporting")
        agent.kill()
        (tmp_path / "unreachable").unlink()
        for file in agent.path.glob("controller.db*"):
            file.unlink()
        agent.start()
        assert agent.ended(1).startswith("not started"), "and its own end is known"
        agent.ask("undrain")
        job = agent.submit("exit 7")
        assert (job, agent.ended(job)) == (2, "exited 7")


def test_a_queue_that_was_lost_with_its_mark_gives_no_id_again_either(tmp_path: Path) -> None:
    """What has ended, and is forgotten but for how, is told of no other job. An id that no queue has given is no bound."""
    with Agents(tmp_path / "state").start() as agent:
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        agent.until("1.1", "none")
        agent.kill()
        agent.steps.launch(["true"], runtime_id=step_of(2**63 - 1))
        agent.start()
        assert agent.ended(2**63 - 1) == "exited 0"
        agent.until(f"{2**63 - 1}.1", "none")
        agent.kill()
        for file in agent.path.glob("controller.*"):
            file.unlink()
        agent.start()
        job = agent.submit("exit 7")
        assert (job, agent.ended(job)) == (2, "exited 7")
