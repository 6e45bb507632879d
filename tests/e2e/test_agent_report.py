"""A report is repeated until it is answered, through any restart; what it rests on is kept until then, and it blocks no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc.agent.controller.link import AttemptReport
from spurproc.agent.resources.request import ResourceRequest
from tests.agent_values import job_spec
from tests.agents import NOTHING_LEFT, Agents, step_of
from tests.remote_controller import Loss
from tests.remote_wire import RemoteMachine
from tests.spurd_program import AGAIN_VARIABLE

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def test_a_controller_that_is_down_for_three_restarts_is_told_in_the_end(tmp_path: Path) -> None:
    """The epilog has run once, the resources are free at once, and the step folder is kept until the report is taken."""
    down = tmp_path / "unreachable"
    down.touch()
    epilog = {"epilog-argv": f"/bin/sh -c 'echo >>{tmp_path}/epilog'"}
    with Agents(tmp_path / "state", epilog, odd=True).start() as agent:
        job = agent.submit("exit 6")
        agent.until("1.1", "reporting")
        for _ in range(3):
            agent.kill()
            agent.start()
            assert agent.ask("attempts")["1.1"]["state"] == "reporting"
            assert agent.ask("claims") == {}
            assert agent.folders()["steps"] == [str(step_of(job))]
        down.unlink()
        assert agent.ended(job) == "exited 6"
        agent.until("1.1", "none")
        assert (tmp_path / "epilog").read_text() == "\n"
        assert agent.folders() == NOTHING_LEFT


def test_a_report_says_the_same_by_another_agent(tmp_path: Path) -> None:
    """Also what nobody was held to, which its step tells no more."""
    with RemoteMachine(str(tmp_path / "remote")) as machine, Agents(tmp_path / "state", remote=machine.path).start() as agent:
        machine.do(lambda controller: controller.losing.update({AttemptReport: [Loss.ANSWER] * 9}))
        machine.do(lambda controller: controller.submit(job_spec(resources=ResourceRequest(memory_bytes=1 << 20))))
        machine.until(lambda controller: any(isinstance(one, AttemptReport) for one in controller.sent))
        agent.kill()
        machine.do(lambda controller: controller.losing.clear())
        agent.start()
        agent.until("1.1", "none")
        first, *others = machine.heard(AttemptReport)
        assert others == [first] * len(others)
        assert others


@pytest.mark.parametrize("restarted", [False, True])
def test_who_cancels_what_is_over_changes_no_report(tmp_path: Path, *, restarted: bool) -> None:
    (tmp_path / "refused").write_text("1.1")
    agents = Agents(tmp_path / "state", odd=True)
    agents.env[AGAIN_VARIABLE] = "0.1"
    with agents.start() as agent:
        job = agent.submit("exit 3")
        agent.ask("refused 1.1")
        assert agent.ask(f"cancel {job}") == "asked"
        assert agent.ended(agent.submit("exit 0")) == "exited 0", "the cancel was heard before"
        if restarted:
            agent.kill()
            agent.start()
        (tmp_path / "refused").unlink()
        assert agent.ask(f"ended {job}") == {"end": "exited 3", "cancelled": False, "fault": None}


def test_an_idle_node_that_owes_a_report_stays_in_the_books(tmp_path: Path) -> None:
    """Somebody still waits to hear of its job."""
    (tmp_path / "unreachable").touch()
    with Agents(tmp_path / "state", odd=True).start() as agent:
        agent.submit("exit 6")
        agent.until("1.1", "reporting")
        assert agent.stop() == 0
        assert "deregistered=false" in agent.facts("ends")[0].lower()


def test_a_refused_report_is_shown_kept_and_blocks_no_other(tmp_path: Path) -> None:
    """Also after a restart. Nor does it keep the node in the controller's books: nothing runs on it."""
    (tmp_path / "refused").write_text("1.1\n")
    with Agents(tmp_path / "state", odd=True).start() as agent:
        agent.submit("exit 6")
        agent.await_fact("its report was refused")
        assert agent.ended(agent.submit("exit 5")) == "exited 5"
        agent.until("2.1", "none")
        agent.kill()
        agent.start()
        assert agent.ask("attempts") == {"1.1": {"state": "reporting", "held": None}}
        assert agent.ask("held") == ["it is over, exited 6, and its report was refused: the test says so"]
        assert agent.ended(agent.submit("exit 4")) == "exited 4"
        assert agent.folders()["steps"][:1] == [str(step_of(1))]
        agent.until("3.1", "none")
        assert agent.stop() == 0
        assert "deregistered=true" in agent.facts("ends")[-1].lower()
