"""Attempts of which nothing but a step folder tells, and that cannot be read: held, named, watched, and over once they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc.proto.runtime_id import RuntimeId
from tests.agents import NOTHING_LEFT, Agents, step_of
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def _forget_all(agent: Agents) -> None:
    """The agent's store is gone; the queue is not."""
    for file in agent.path.glob("agent.db*"):
        file.unlink()


def _put(record: Path, content: bytes) -> None:
    """At once: somebody reads it just now."""
    record.with_name("put").write_bytes(content)
    record.with_name("put").replace(record)


@pytest.mark.parametrize("cancelled", [False, True])
def test_one_without_a_row_is_held_and_over_once_that_can_be_seen(tmp_path: Path, *, cancelled: bool) -> None:
    """Nothing is tried for ever, each start finds it again, and its end is its job's; from then on it drains nothing."""
    gate = Gate(tmp_path / "gate")
    hooks = {"epilog-argv": f"/bin/sh -c 'echo $SPURD_JOB_ID $SPURD_JOB_END >>{tmp_path}/epilogs'"}
    with Agents(tmp_path / "state", hooks).start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.until_executed(job)
        agent.kill()
        _forget_all(agent)
        launch = agent.path / "steps" / "runtime" / str(step_of(job)) / "launch.json"
        good = launch.read_bytes()
        _put(launch, good[:-2])
        for _ in range(2):
            agent.start()
            agent.until("1.1", "held")
            assert len(agent.ask("held")) == 1
            assert ["1.1" in drain for drain in agent.ask("drains")] == [True]
            agent.kill()
        agent.start()
        if cancelled:
            agent.ask(f"cancel {job}")
            agent.await_fact("is to end")
            agent.until("1.1", "held")
        _put(launch, good)
        if not cancelled:
            gate.open()
        assert agent.ended(job) == ("killed by SIGTERM" if cancelled else "exited 6")
        agent.until("1.1", "none")
        assert agent.facts("tried again later") == []
        assert (tmp_path / "epilogs").read_text().startswith("1 killed" if cancelled else "1 exited 6")
        assert (agent.ask("drains"), agent.ask("claims"), agent.folders()) == ([], {}, NOTHING_LEFT)
        assert agent.ended(agent.submit("exit 5")) == "exited 5"


def test_one_that_nobody_knows_anything_of_is_over_when_it_ends(tmp_path: Path) -> None:
    """It says of itself what can be no allocation. The queue takes its end, and it drains nothing any more."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.kill()
        agent.steps.launch(gate.script("exit 4"), runtime_id=step_of(9), env={"SPURD_MEMORY_BYTES": "9" * 30})
        agent.start()
        agent.until("9.1", "held")
        assert ["memory_bytes" in why for why in agent.ask("held")] == [True]
        assert ["9.1" in drain for drain in agent.ask("drains")] == [True]
        gate.open()
        assert agent.ended(9) == "exited 4"
        agent.until("9.1", "none")
        assert (agent.ask("drains"), agent.ask("claims"), agent.folders()) == ([], {}, NOTHING_LEFT)


def test_a_step_of_somebody_else_keeps_jobs_waiting_until_it_has_ended(tmp_path: Path) -> None:
    """What it holds nobody knows. No restart is needed, and nobody who lifts a drain. Its id, the last of all, is no bound."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.kill()
        agent.steps.launch(gate.script("exit 4"), runtime_id=RuntimeId(2**63 - 1, 1, 0))
        agent.start()
        assert [f"step {2**63 - 1}.1.0" in drain for drain in agent.ask("drains")] == [True]
        job = agent.submit("exit 3")
        assert agent.ask(f"job {job}")[0] == "queued"
        gate.open()
        assert agent.ended(job) == "exited 3"
        assert agent.ask("drains") == []
