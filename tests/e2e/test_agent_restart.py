"""What an agent finds at its start: the step folders say what ran, the store what is owed; nothing happens twice."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents, step_of
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def _copy_databases(source: Path, target: Path) -> None:
    """As a backup has them, and as one is restored."""
    target.mkdir(exist_ok=True)
    for name in ("agent.db", "controller.db"):
        for suffix in ("-wal", "-shm"):
            (target / f"{name}{suffix}").unlink(missing_ok=True)
        with sqlite3.connect(source / name) as one, sqlite3.connect(target / name) as other:
            one.backup(other)
        one.close()
        other.close()
        (target / name).chmod(0o600)


def _held_jobs(agent: Agents, tmp_path: Path, count: int) -> tuple[Gate, list[int]]:
    """So many that run, each with an output of its own, until the gate is opened for each."""
    gate = Gate(tmp_path / "gate")
    jobs = [
        agent.submit(f"echo once; read x <{gate.path}; exit $SPURD_JOB_ID", stdout=str(tmp_path / "out-%j")) for _ in range(count)
    ]
    for job in jobs:
        agent.until(f"{job}.1", "running")
    return gate, jobs


@pytest.mark.parametrize("count", [1, 20, 200])
def test_all_are_found_again_as_they_were(tmp_path: Path, count: int) -> None:
    """SIGKILL, SIGTERM, SIGKILL: the same processes, the same CPUs, one line of output each, and their true ends."""
    with Agents(tmp_path / "state", cpus=count).start() as agent:
        gate, jobs = _held_jobs(agent, tmp_path, count)
        leaders = {job: agent.leader(job) for job in jobs}
        claims = agent.ask("claims")
        for end in (agent.kill, agent.stop, agent.kill):
            end()
            agent.start()
            assert {job: agent.leader(job) for job in jobs} == leaders
            assert agent.ask("claims") == claims
        for _ in jobs:
            gate.open()
        assert {job: agent.ended(job) for job in jobs} == {job: f"exited {job}" for job in jobs}
        for job in jobs:
            agent.until(f"{job}.1", "none")
            assert (tmp_path / f"out-{job}").read_text() == "once\n"
        assert agent.folders() == NOTHING_LEFT


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
        gate.open()
        agent.until("1.1", "reporting")
        assert "cannot find job 1" in agent.await_fact("its report was refused")
        assert (tmp_path / "ran").read_text() == "\n"


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


def test_one_bad_folder_stops_nothing(tmp_path: Path) -> None:
    """It is held and named, and keeps its CPU; the others end as they would have, and strangers are left alone."""
    with Agents(tmp_path / "state").start() as agent:
        gate, jobs = _held_jobs(agent, tmp_path, 2)
        agent.kill()
        runtime = agent.path / "steps" / "runtime"
        shutil.copy(runtime / str(step_of(1)) / "launch.json", tmp_path / "launch.json")
        (runtime / str(step_of(1)) / "launch.json").write_bytes(b"{")
        (runtime / "lost+found").mkdir()
        agent.start()
        attempts = agent.ask("attempts")
        assert attempts["1.1"]["state"] == "held"
        assert "launch.json" in attempts["1.1"]["held"]
        assert sorted(agent.ask("claims")) == ["1.1", "2.1"]
        gate.open()
        gate.open()
        assert agent.ended(2) == "exited 2"
        agent.until("2.1", "none")
        agent.kill()
        shutil.copy(tmp_path / "launch.json", runtime / str(step_of(1)) / "launch.json")
        (runtime / str(step_of(1)) / "launch.json").chmod(0o600)
        agent.start()
        assert agent.ended(1) == "exited 1"
        assert jobs == [1, 2]
        (runtime / "lost+found").rmdir()


def test_of_two_that_claim_one_cpu_the_later_is_fenced(tmp_path: Path) -> None:
    """It ends, by its kill plan, and is reported with the reason; the earlier runs on."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        for _ in range(2):
            agent.submit(f"read x <{gate.path}; exit 6")
        for name in ("1.1", "2.1"):
            agent.until(name, "running")
        agent.stop()
        database = sqlite3.connect(agent.path / "agent.db")
        database.execute("UPDATE attempts SET allocation = (SELECT allocation FROM attempts WHERE job_id = 1)")
        database.commit()
        database.close()
        agent.start()
        told = agent.ask("ended 2")
        assert told["end"] == "killed by SIGTERM"
        assert told["cancelled"]
        assert "CPU 0: 1.1 holds it" in told["fault"]
        agent.until("2.1", "none")
        assert agent.ask("claims") == {"1.1": [0]}
        gate.open()
        assert agent.ended(1) == "exited 6"


def test_a_lower_attempt_beside_a_higher_is_fenced_and_removed(tmp_path: Path) -> None:
    """Its end is nobody's business any more."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.stop()
        agent.steps.launch(["sh", "-c", f"read x <{gate.path}; exit 7"], runtime_id=step_of(1, 2), affinity=[1])
        agent.start()
        agent.until("1.1", "none")
        assert list(agent.ask("claims")) == ["1.2"]
        assert not (agent.path / "steps" / "runtime" / str(step_of(1, 1))).exists()
        gate.open()
        assert agent.ended(1) == "exited 7"


def test_a_step_that_was_lost_fails_its_attempt_and_is_no_guess(tmp_path: Path) -> None:
    """Leader, supervisor and witness were killed while no agent was there: UNKNOWN, with the reason, and all is cleaned up."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.kill()
        descriptor = agent.steps.descriptor_of(1, 1, step_of(1).step_id)
        assert descriptor.leader is not None
        agent.steps.kill(descriptor.host, descriptor.supervisor, descriptor.leader)
        agent.start()
        assert agent.ended(job).startswith("unknown: ")
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert agent.ask("claims") == {}


def test_a_row_that_cannot_be_read_is_held_and_stops_no_other(tmp_path: Path) -> None:
    """What its step was given stays taken, by what the step folder says."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.stop()
        database = sqlite3.connect(agent.path / "agent.db")
        database.execute("UPDATE attempts SET allocation = x'7b'")
        database.commit()
        database.close()
        agent.start()
        assert "cannot be read" in agent.ask("attempts")["1.1"]["held"]
        assert agent.ask("claims") == {"1.1": [0]}
        assert agent.ended(agent.submit("exit 5")) == "exited 5"
        gate.open()
