"""Records of hooks that no attempt is there for: they go, but for what may still run, and for what tells that it was run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def _hook(path: Path, gate: Gate, begun: Gate) -> str:
    return f"/bin/sh -c 'echo >>{path}/ran; echo >{begun.path}; read x <{gate.path}; exit 0'"


def _forget(agent: Agents, *databases: str) -> None:
    for name in databases:
        for file in agent.path.glob(f"{name}.db*"):
            file.unlink()


def test_what_an_attempt_that_nobody_knows_has_left_goes(tmp_path: Path) -> None:
    """Its step was acknowledged and removed; then the agent was killed, and the store was lost. What is no record stays."""
    hooks = {"prolog-argv": "/bin/true", "epilog-argv": "/bin/true"}
    with Agents(tmp_path / "state", hooks).start(crash="REMOVE_HOOKS before 1 SIGKILL") as agent:
        job = agent.submit("exit 3")
        assert agent.wait() == -9
        assert [agent.folders()[name] for name in ("steps", "hooks")] == [[], ["1.1.epilog", "1.1.prolog"]]
        _forget(agent, "agent")
        strange = [agent.path / "hooks" / name for name in ("lost+found", "7.1.other")]
        for folder in strange:
            folder.mkdir()
        agent.start()
        assert agent.folders()["hooks"] == ["7.1.other", "lost+found"]
        assert agent.ended(job) == "exited 3"
        for folder in strange:
            folder.rmdir()


def test_a_prolog_that_was_run_for_what_comes_again_is_not_run_twice(tmp_path: Path) -> None:
    """The queue gives the attempt out once more, and the node finds what it has done for it."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    with Agents(tmp_path / "state", {"prolog-argv": _hook(tmp_path, gate, begun)}).start() as agent:
        job = agent.submit("exit 4")
        assert begun.path.read_text() == "\n"
        agent.kill()
        gate.open()
        agent.hook_ended("1.1.prolog")
        _forget(agent, "agent")
        agent.start()
        assert agent.ended(job) == "exited 4"
        agent.until("1.1", "none")
        assert ((tmp_path / "ran").read_text(), agent.folders()) == ("\n", NOTHING_LEFT)


def test_what_may_still_run_is_left_alone_until_it_is_over(tmp_path: Path) -> None:
    """Nobody knows of its attempt, and nobody ends it."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    with Agents(tmp_path / "state", {"prolog-argv": _hook(tmp_path, gate, begun)}).start() as agent:
        agent.submit("exit 5")
        assert begun.path.read_text() == "\n"
        agent.kill()
        _forget(agent, "agent", "controller")
        agent.start()
        assert "1.1.prolog" in agent.await_fact("left alone")
        agent.kill()
        gate.open()
        agent.hook_ended("1.1.prolog")
        agent.start()
        assert agent.folders() == NOTHING_LEFT
