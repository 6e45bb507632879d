"""How an agent ends: what it leaves, what it takes along, and what it says by its exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spurproc import Liveness, ProcessIdentity
from tests.agents import Agents, await_change, step_of, watched
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def test_an_idle_node_is_taken_out_of_the_books(tmp_path: Path) -> None:
    """Nothing runs, nothing is owed; a bare reservation is nothing of the kind, and is not restored."""
    with Agents(tmp_path / "state").start() as agent:
        agent.ended(agent.submit("exit 0"))
        agent.until("1.1", "none")
        agent.ask("alloc 2")
        assert (agent.path / "ready.json").exists()
        assert agent.stop() == 0
        assert "deregistered=true" in agent.facts("ends")[0].lower()
        assert not (agent.path / "ready.json").exists()
        agent.start()
        assert agent.ask("claims") == {}


def test_a_running_job_is_left_alone(tmp_path: Path) -> None:
    """The node stays in the books, and the job goes on without an agent and ends under the next one."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 4")
        agent.until("1.1", "running")
        leader = agent.leader(job)
        assert agent.stop() == 0
        assert "deregistered=false" in agent.facts("ends")[0].lower()
        assert ProcessIdentity.of(leader).liveness() is Liveness.ALIVE
        agent.start()
        assert agent.leader(job) == leader
        gate.open()
        assert agent.ended(job) == "exited 4"


def test_a_launch_under_way_counts_as_running(tmp_path: Path) -> None:
    """Its thread is waited for: what it launches is launched by the owner of the folder, once, and found by the next one."""
    out = Gate(tmp_path / "out")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"echo >>{tmp_path}/ran; exit 4", stdout=str(out.path))
        agent.until("1.1", "launching")
        assert agent.stop() == 0
        assert "deregistered=false" in agent.facts("ends")[0].lower()
        agent.start()
        with out.path.open("rb"):
            assert agent.ended(job) == "exited 4"
        assert (tmp_path / "ran").read_text() == "\n"


def _killed_with_a_job(agent: Agents, gate: Gate) -> ProcessIdentity:
    """The agent is; its job lives: the leader of that."""
    job = agent.submit(f"read x <{gate.path}; exit 4")
    agent.until("1.1", "running")
    leader = ProcessIdentity.of(agent.leader(job))
    agent.kill()
    return leader


def test_what_is_just_being_taken_up_counts_as_running(tmp_path: Path) -> None:
    """Told to end before it serves, it leaves the node in the books and the job alone."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        leader = _killed_with_a_job(agent, gate)
        agent.spawn(crash="WATCH before 1 SIGTERM")
        assert agent.wait() == 0
        assert "deregistered=false" in agent.facts("ends")[0].lower()
        assert leader.liveness() is Liveness.ALIVE
        agent.start()
        gate.open()
        assert agent.ended(1) == "exited 4"


def test_a_second_agent_refuses(tmp_path: Path) -> None:
    """And says who owns the folder; the first goes on."""
    with Agents(tmp_path / "state").start() as agent:
        first = agent.process
        assert agent.spawn().wait() == 1
        assert "cannot start" in agent.log.read_text()
        agent.process = first
        assert agent.ended(agent.submit("exit 3")) == "exited 3"


def _stopped_after_a_heartbeat(agent: Agents) -> None:
    """Right behind a replacement of its readiness file."""
    with watched(agent.path) as watch:
        await_change(watch)
    agent.freeze()


def test_a_removed_folder_is_not_made_again_and_its_steps_end(tmp_path: Path) -> None:
    """STOP, removed, CONT: it serves nothing and writes nothing; what it had launched is gone before it ends with 125."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", {"heartbeat-interval-s": "0.2"}).start() as agent:
        job = agent.submit(f"read x <{gate.path}")
        agent.until("1.1", "running")
        leader = ProcessIdentity.of(agent.leader(job))
        _stopped_after_a_heartbeat(agent)
        shutil.rmtree(agent.path)
        agent.thaw()
        agent.await_fact("what it had launched is ended")
        assert leader.liveness() is Liveness.GONE
        assert agent.stop() == 125
        assert not agent.path.exists()


def test_a_folder_that_is_removed_while_an_agent_starts_is_lost(tmp_path: Path) -> None:
    """It never served, and never does: 125 when it is told to end. The supervisor of what ran has ended that."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        leader = _killed_with_a_job(agent, gate)
        agent.spawn(crash="WATCH before 1 SIGSTOP", until_ready=False)
        agent.await_stopped()
        with leader.open() as held:
            shutil.rmtree(agent.path)
            agent.thaw()
            agent.await_fact("serves nothing any more")
            held.wait(60, reap_grace_s=0)
        assert agent.stop() == 125
        assert not agent.path.exists()


def test_a_hook_that_runs_in_a_removed_folder_ends(tmp_path: Path) -> None:
    """Nobody would ever learn how it went, and its job never runs."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    hooks = {"prolog-argv": f"/bin/sh -c 'echo $$ >{begun.path}; read x <{gate.path}'", "heartbeat-interval-s": "0.2"}
    with Agents(tmp_path / "state", hooks).start() as agent:
        agent.submit(f"touch {tmp_path}/ran")
        hook = ProcessIdentity.of(int(begun.path.read_text()))
        _stopped_after_a_heartbeat(agent)
        shutil.rmtree(agent.path)
        agent.thaw()
        agent.await_fact("what it had launched is ended")
        assert hook.liveness() is Liveness.GONE
        assert agent.stop() == 125
        assert not agent.path.exists()
        assert not (tmp_path / "ran").exists()


def test_a_replacement_is_owned_by_who_takes_it(tmp_path: Path) -> None:
    """The first one notices, serves nothing, and leaves the moved folder and the new one alone."""
    with Agents(tmp_path / "state", {"heartbeat-interval-s": "0.2"}).start() as agent:
        _stopped_after_a_heartbeat(agent)
        agent.path.rename(tmp_path / "moved")
        first = agent.process
        agent.start()
        second, agent.process = agent.process, first
        agent.thaw()
        agent.await_fact("serves nothing any more")
        before = sorted((tmp_path / "moved").iterdir())
        agent.process = second
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        agent.until("1.1", "none")
        assert agent.stop() == 0
        agent.process = first
        assert agent.stop() == 125
        assert [one for one in sorted((tmp_path / "moved").iterdir()) if one not in before] == []


def test_a_launch_in_flight_when_the_folder_goes_leaves_nothing(tmp_path: Path) -> None:
    """No tree, no file, no folder: the job never ran."""
    agents = Agents(tmp_path / "state", {"heartbeat-interval-s": "0.2"})
    with agents.start(crash="LAUNCH after 1 SIGSTOP") as agent:
        agent.submit(f"touch {tmp_path}/ran")
        agent.await_stopped()
        shutil.rmtree(agent.path)
        agent.thaw()
        agent.await_fact("serves nothing any more")
        assert agent.stop() == 125
        assert not agent.path.exists()
        assert not (tmp_path / "ran").exists()


def test_what_nobody_could_name_any_more_is_quarantined(tmp_path: Path) -> None:
    """Its step folder was removed and its tree lives, for its supervisor is stopped: 75, until all of it is really gone."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"read x <{gate.path}")
        agent.until("1.1", "running")
        agent.ask("claims")
        descriptor = agent.steps.descriptor_of(1, 1, step_of(job).step_id)
        assert descriptor.leader is not None
        with descriptor.supervisor.open() as supervisor, descriptor.leader.open() as leader:
            supervisor.send_signal(19)
            shutil.rmtree(agent.path / "steps" / "runtime" / str(step_of(job)))
            assert agent.stop() == 75
            assert agent.spawn().wait() == 75
            supervisor.send_signal(18)
            leader.wait(60, reap_grace_s=0)
            supervisor.wait(60, reap_grace_s=0)
        agent.start()
        assert agent.facts("the quarantine is over: all of it is gone")
        assert not (agent.path / "quarantine.json").exists()
