"""GPUs that something still uses when their job has ended: no other job gets them until that is over."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spurproc.agent.resources.request import ResourceRequest
from tests.agents import Agents
from tests.fifo import Gate
from tests.node_tree import NodeTree
from tests.spurd_program import LATE_VARIABLE

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

FIRST, SECOND = "0000:41:00.0", "0000:65:00.0"
DEVICE = "/dev/nvidia1"
"""Of the first: its driver tells "Device Minor: 1"."""
OTHER_DEVICE = "/dev/nvidia0"


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    made = NodeTree("nvidia", tmp_path)
    made.write(DEVICE, "")
    made.write(OTHER_DEVICE, "")
    made.write("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1\n")
    return made


@contextmanager
def _user_of(tree: NodeTree, device_path: str = DEVICE) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the GPU open, in no cgroup of a job's; ended at the end."""
    with tree.at(device_path).open("rb") as device, subprocess.Popen(["sleep", "600"], stdin=device) as user:
        try:
            yield user
        finally:
            user.kill()


def _holder(agent: Agents, gate: Gate) -> str:
    """An attempt that has a GPU until the gate is opened."""
    job = agent.submit(f"read x <{gate.path}", resources=ResourceRequest(gpus=1))
    agent.until(f"{job}.1", "running")
    return f"{job}.1"


def _free(agent: Agents) -> list[str]:
    return [gpu["pci_address"] for gpu in agent.ask("node")[1]["gpus"]]


def _spoil(agent: Agents, name: str) -> None:
    """As a later release may have written it, or a disk."""
    with closing(sqlite3.connect(agent.path / "agent.db")) as database, database:
        assert database.execute("UPDATE node_values SET value = ? WHERE name = ?", (b"{", name)).rowcount == 1


def _end(agent: Agents, attempt: str, gate: Gate) -> None:
    gate.open()
    agent.until(attempt, "none")


def test_a_remnant_keeps_its_gpu_from_others(tree: NodeTree, tmp_path: Path, gate: Callable[[str], Gate]) -> None:
    """Over a restart too; the end is told all the same, other GPUs are given, and in the end this one is."""
    gates = gate("one"), gate("two")
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        attempt = _holder(agent, gates[0])
        with _user_of(tree) as remnant:
            _end(agent, attempt, gates[0])
            assert agent.ended(1) == "exited 0"
            assert _free(agent) == [SECOND]
            (problem,) = agent.ask("problems")
            assert problem == (
                f"{FIRST} is held back: attempt 1.1 has ended, and process {remnant.pid} (sleep) has {DEVICE} open"
            )
            agent.kill()
            _spoil(agent, "accepted inventory")
            agent.start()
            assert _free(agent) == [SECOND]
            other = _holder(agent, gates[1])
            assert _free(agent) == []
            _end(agent, other, gates[1])
        agent.await_fact("a GPU is free after all")
        assert _free(agent) == [FIRST, SECOND]
        assert agent.ask("problems") == []
        agent.kill()
        _spoil(agent, "GPUs held back")
        agent.start()
        assert _free(agent) == [FIRST, SECOND]


def test_an_end_that_a_start_finds_frees_no_other_gpu_that_is_held_back(
    tree: NodeTree, tmp_path: Path, gate: Callable[[str], Gate]
) -> None:
    """Both jobs leave somebody behind; the second ends while no agent is there, and is found while the node is still read."""
    gates = gate("one"), gate("two"), gate("node")
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        first, second = (_holder(agent, one) for one in gates[:2])
        with _user_of(tree), _user_of(tree, OTHER_DEVICE):
            _end(agent, first, gates[0])
            agent.kill()
            gates[1].open()
            agent.steps_ended(2)
            agent.env[LATE_VARIABLE] = str(gates[2].path)
            agent.log.unlink()
            agent.spawn(until_ready=False)
            assert f"attempt={second}" in agent.await_fact("ended")
            gates[2].open()
            agent.await_fact("serves")
            assert _free(agent) == []


def test_what_was_there_before_and_what_has_a_gpu_of_its_own_are_no_remnants(
    tree: NodeTree, tmp_path: Path, gate: Callable[[str], Gate]
) -> None:
    """A daemon that keeps the GPU awake; another job that has opened all that it found. And nobody looks who is told not to."""
    gates = gate("one"), gate("two"), gate("three")
    with Agents(tmp_path / "state", root=tree.root) as agent:
        with _user_of(tree):
            agent.start()
            attempt = _holder(agent, gates[0])
            _end(agent, attempt, gates[0])
            assert _free(agent) == [FIRST, SECOND]
        attempt = _holder(agent, gates[1])
        other = agent.submit(f"exec <{tree.at(DEVICE)}; read x <{gates[2].path}", resources=ResourceRequest(gpus=1))
        agent.until(f"{other}.1", "running")
        _end(agent, attempt, gates[1])
        assert _free(agent) == [FIRST]
        _end(agent, f"{other}.1", gates[2])
        agent.kill()
        agent.start(gpus_in_use="give")
        attempt = _holder(agent, gates[0])
        with _user_of(tree):
            _end(agent, attempt, gates[0])
            assert _free(agent) == [FIRST, SECOND]
