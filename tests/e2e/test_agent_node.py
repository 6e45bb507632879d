"""What an agent does about its node: devices that vanish and come back, trees that cannot be ended, drains."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc import KillPlan
from spurproc.agent.resources.request import ResourceRequest
from tests.agents import NOTHING_LEFT, Agents
from tests.node_tree import NodeTree
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_FIRST, _SECOND = "0000:41:00.0", "0000:65:00.0"


def _gpus(agent: Agents) -> list[str]:
    gpus: list[str] = agent.ask("inventory")[1]
    return gpus


def test_a_gpu_that_vanishes_while_nobody_uses_it(tmp_path: Path) -> None:
    """One reading is an odd one, two are a fact; and back again the same way."""
    tree = NodeTree("nvidia", tmp_path)
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        assert _gpus(agent) == [_FIRST, _SECOND]
        tree.take_out(_FIRST)
        assert _gpus(agent) == [_FIRST, _SECOND]
        assert _gpus(agent) == [_SECOND]
        assert agent.ask("drains") == []
        tree.put_back(_FIRST)
        assert [_gpus(agent), _gpus(agent)] == [[_SECOND], [_FIRST, _SECOND]]


def test_a_gpu_that_vanishes_under_a_job_waits_for_its_end(tmp_path: Path) -> None:
    """The node drains, over a restart too, and the job keeps what it has; with its end all of that is over."""
    tree, gate = NodeTree("nvidia", tmp_path), Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        job = agent.submit(
            f"echo $CUDA_VISIBLE_DEVICES; read x <{gate.path}; exit 3",
            stdout=str(tmp_path / "out"),
            resources=ResourceRequest(gpus=1),
        )
        agent.until("1.1", "running")
        tree.take_out(_FIRST)
        assert [_gpus(agent), _gpus(agent)] == [[_FIRST, _SECOND]] * 2
        (drain,) = agent.ask("drains")
        assert f"GPU {_FIRST}" in drain
        assert "vanished" in drain
        agent.kill()
        agent.start()
        assert agent.ask("drains") == [drain]
        gate.open()
        assert agent.ended(job) == "exited 3"
        agent.await_fact("a drain is lifted")
        assert agent.ask("drains") == []
        assert _gpus(agent) == [_SECOND]
        assert (tmp_path / "out").read_text() == "GPU-6f2c1a58-0d5e-4a0b-9d0a-8d3a2f6f1b11\n"


def test_a_reading_that_fails_changes_nothing_and_is_shown(tmp_path: Path) -> None:
    """Not at a start either: what was accepted last stands."""
    tree = NodeTree("nvidia", tmp_path)
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        tree.spoil("/proc/meminfo")
        assert _gpus(agent) == [_FIRST, _SECOND]
        assert "meminfo" in agent.ask("problems")[0]
        agent.kill()
        agent.start()
        assert _gpus(agent) == [_FIRST, _SECOND]
        assert "meminfo" in agent.ask("problems")[0]


def test_a_node_that_cannot_be_read_at_its_first_start_is_not_served(tmp_path: Path) -> None:
    """Nobody would know what to give."""
    tree = NodeTree("nvidia", tmp_path)
    tree.spoil("/proc/meminfo")
    with Agents(tmp_path / "state", root=tree.root) as agent:
        assert agent.spawn().wait() == 1
        assert "cannot tell what this node has" in agent.log.read_text()


def test_a_tree_that_cannot_be_ended_is_held_and_named(tmp_path: Path) -> None:
    """Its plan is over, and it lives: it keeps its CPU, and who it is is shown; when it does end all is as with any other."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    plan = KillPlan(steps=((15, 0.1),))
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"trap '' TERM; echo >{begun.path}; read x <{gate.path}; exit 4", kill_plan=plan)
        begun.path.read_text()
        pid = agent.leader(job)
        agent.ask(f"cancel {job}")
        agent.until("1.1", "held")
        (held,) = agent.ask("held")
        assert held.startswith("it cannot be ended: ")
        assert str(pid) in held
        assert agent.ask("claims") == {"1.1": [0]}
        gate.open()
        assert agent.ask(f"ended {job}") == {"end": "exited 4", "cancelled": True, "fault": None}
        agent.until("1.1", "none")
        assert agent.ask("claims") == {}


def test_a_tree_that_outlives_its_leader_and_cannot_be_ended_is_held_though_nobody_cancelled_it(tmp_path: Path) -> None:
    """Who it is is shown, and its CPU stays its own; with the end of all of it the job has the end of its leader."""
    gate, begun, plan = Gate(tmp_path / "gate"), Gate(tmp_path / "begun"), KillPlan(steps=((15, 0.1),))
    child = f"(trap '' TERM; echo >{begun.path}; read x <{gate.path}) &"
    with Agents(tmp_path / "state", {"inventory-interval-s": "0.2"}).start() as agent:
        job = agent.submit(f"{child} read x <{begun.path}; exit 4", kill_plan=plan)
        agent.until("1.1", "held")
        (held,) = agent.ask("held")
        assert held.startswith("it cannot be ended: ")
        assert agent.ask("claims") == {"1.1": [0]}
        gate.open()
        assert agent.ended(job) == "exited 4"
        agent.until("1.1", "none")


def test_a_job_that_is_a_reservation_holds_what_it_asked_for_and_ends_with_the_agent(tmp_path: Path) -> None:
    """Nothing of it runs, so the node is taken out of the books all the same; cancelled, it gives all back at once."""
    with Agents(tmp_path / "state", cpus=2).start() as agent:
        first = agent.submit(reservation=True, resources=ResourceRequest(cpus=2))
        agent.until("1.1", "running")
        assert agent.ask("claims") == {"1.1": [0, 1]}
        assert agent.folders() == NOTHING_LEFT
        agent.ask(f"cancel {first}")
        second = agent.submit(reservation=True)
        agent.until("2.1", "running")
        told = agent.ask(f"ended {first}")
        assert told["cancelled"]
        assert "not started" in told["end"]
        assert agent.stop() == 0
        assert "deregistered=true" in agent.facts("ends")[0].lower()
        agent.start()
        assert "not started" in agent.ended(second)
        assert agent.ended(agent.submit("exit 3", resources=ResourceRequest(cpus=2))) == "exited 3"


def test_an_operators_drain_stays_until_it_is_lifted(tmp_path: Path) -> None:
    """Over restarts; what waits in the queue runs then."""
    with Agents(tmp_path / "state").start() as agent:
        agent.ask("drain")
        job = agent.submit("exit 3")
        agent.kill()
        agent.start()
        assert agent.ask("drains") == ["by the test"]
        assert agent.ask("attempts") == {}
        agent.ask("undrain")
        assert agent.ended(job) == "exited 3"


def test_a_reservation_holds_its_cpus_and_nothing_else(tmp_path: Path) -> None:
    """No job gets them before they are given back."""
    with Agents(tmp_path / "state").start() as agent:
        reserved, cpus = agent.ask("alloc 2")
        assert cpus == [0, 1]
        job = agent.submit("exit 3")
        assert agent.ask("attempts") == {}
        agent.ask(f"release {reserved}")
        assert agent.ended(job) == "exited 3"
