"""Agents whose folder is gone, or elsewhere, and whose next heartbeat has not told them so yet."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spurproc import Liveness, ProcessIdentity
from spurproc.agent.node.readiness import read_ready
from spurproc.agent.node.state_dir import StateDir
from tests.agents import Agents, await_change, step_of, watched
from tests.spurd_command import Spurd
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_SELDOM = {"heartbeat-interval-s": "600", "heartbeat-timeout-s": "3600"}


def _everything_in(folder: Path) -> set[str]:
    """But what the supervisors write by themselves."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "steps" not in path.relative_to(folder).parts}


def test_a_moved_folder_is_left_as_it_is_by_an_agent_that_ends(tmp_path: Path) -> None:
    """125; nothing is put down there, nobody is told that the node is idle, and the next agent takes the job up."""
    gate, moved = Gate(tmp_path / "gate"), tmp_path / "moved"
    with Agents(tmp_path / "state", _SELDOM).start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 4")
        agent.until("1.1", "running")
        leader = ProcessIdentity.of(agent.leader(job))
        before = _everything_in(agent.path)
        agent.path.rename(moved)
        try:
            assert agent.stop() == 125
            assert leader.liveness() is Liveness.ALIVE
            assert _everything_in(moved) - before == set()
            assert "quarantine.json" not in _everything_in(moved)
        finally:
            moved.rename(agent.path)
        assert not agent.facts("ends")
        agent.start()
        assert agent.leader(job) == leader.pid
        gate.open()
        assert agent.ended(job) == "exited 4"


def test_an_idle_agent_of_a_moved_folder_does_not_speak_for_the_node(tmp_path: Path) -> None:
    """Another one may serve by then, and would be taken out of the books."""
    with Agents(tmp_path / "state", _SELDOM).start() as agent:
        agent.path.rename(tmp_path / "moved")
        assert agent.stop() == 125
        assert not agent.facts("ends")
        assert agent.facts("serves nothing any more")


@pytest.mark.parametrize("stopped", [False, True])
def test_an_agent_that_ends_ends_what_was_launched_from_a_removed_folder(tmp_path: Path, *, stopped: bool) -> None:
    """Itself: the supervisor sees nothing. Also where the signal comes before it can look."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", _SELDOM).start() as agent:
        job = agent.submit(f"read x <{gate.path}")
        agent.until("1.1", "running")
        agent.until_executed(job)
        descriptor = agent.steps.descriptor_of(1, 1, step_of(job).step_id)
        assert descriptor.leader is not None
        with descriptor.supervisor.open() as supervisor, descriptor.leader.open() as leader:
            supervisor.send_signal(signal.SIGSTOP)
            try:
                if stopped:
                    agent.freeze()
                shutil.rmtree(agent.path)
                assert agent.process is not None
                agent.process.send_signal(signal.SIGTERM)
                if stopped:
                    agent.thaw()
                assert agent.wait() == 125
                assert leader.liveness() is Liveness.GONE
            finally:
                supervisor.send_signal(signal.SIGCONT)
            supervisor.wait(60, reap_grace_s=0)
        assert not agent.path.exists()


def _settle(agent: Agents) -> None:
    """The node is registered and has said so, and a job has come and gone: nothing looks at the folder before the next beat."""
    with watched(agent.path) as watch, StateDir.open(agent.path) as state:
        while (ready := read_ready(state)) is None or not ready.registered:
            await_change(watch)
    agent.ended(agent.submit("exit 0"))
    agent.until("1.1", "none")


def _jobs_in(queue: Path) -> int:
    with closing(sqlite3.connect(queue)) as database:
        return int(database.execute("SELECT count(*) FROM jobs").fetchone()[0])


@pytest.mark.parametrize("words", [("submit", "--", "true"), ("alloc", "--for", "1")])
def test_what_nobody_will_serve_is_not_acknowledged(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Asked at an address elsewhere, it finds the loss at the first request, says so, and serves nothing from then on."""
    address = tmp_path / "run" / "spurd.sock"
    address.parent.mkdir()
    moved = tmp_path / "moved"
    with Agents(tmp_path / "state", _SELDOM | {"socket-path": str(address)}).start() as agent:
        _settle(agent)
        agent.path.rename(moved)
        try:
            said = Spurd(agent.path)(*words, env={"SPURD_SOCKET_PATH": str(address)})
            assert said.code != 0, said
            assert "is not owned any more" in said.err, said
            agent.await_fact("serves nothing any more")
            assert _jobs_in(moved / "controller.db") == 1
            assert agent.stop() == 125
        finally:
            moved.rename(agent.path)
