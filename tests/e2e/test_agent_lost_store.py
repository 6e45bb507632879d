"""The agent's store is gone, and the node has less than before: what runs keeps all that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.runtime_id import RuntimeId
from tests.agents import Agents, step_of
from tests.steps import KILL_AT_ONCE, WAIT_S, Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def test_what_runs_keeps_what_it_was_given(tmp_path: Path) -> None:
    """Its CPU and its licence are no other's, though its memory is more than there is; what is no job's is held or left alone."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", {"generic": "license=2"}).start() as agent:
        given = ResourceRequest(cpus=1, memory_bytes=800 << 20, generic={"license": 1})
        agent.submit(f"read x <{gate.path}; exit 6", resources=given)
        agent.until("1.1", "running")
        agent.kill()
        agent.steps.launch(["sleep", "1000"], runtime_id=step_of(9), affinity=[1], env={"SPURD_MEMORY_BYTES": "9" * 30})
        extern = agent.steps.launch(["sleep", "1000"], runtime_id=RuntimeId(8, 1, 0))
        for left in ("spool", "scratch"):
            (agent.path / left / "7.1").mkdir()
        for file in agent.path.glob("agent.db*"):
            file.unlink()
        agent.settings["memory-bytes"] = str(512 << 20)
        agent.start()
        states = {name: one["state"] for name, one in agent.ask("attempts").items()}
        assert states == {"1.1": "running", "9.1": "held"}
        assert agent.ask("claims") == {"1.1": [0]}
        assert "memory_bytes" in agent.ask("attempts")["9.1"]["held"]
        drains = agent.ask("drains")
        assert [[name in drain for drain in drains] for name in ("9.1", "8.1.0")] == [[True, False], [False, True]]
        assert {name: agent.folders()[name] for name in ("spool", "scratch")} == {"spool": ["1.1"], "scratch": ["1.1"]}
        free = agent.ask("node")[1]
        assert (0 in free["cpus"], free["memory_bytes"], free["generic"]) == (False, 0, {"license": 1})
        agent.kill()
        extern.terminate(KILL_AT_ONCE)
        extern.wait(WAIT_S, completed=True)
        agent.start()
        assert agent.ask("claims") == {"1.1": [0]}
        assert not any("8.1.0" in drain for drain in agent.ask("drains"))
        gate.open()
        agent.until("1.1", "reporting", "none")
        assert agent.ask("claims") == {}
