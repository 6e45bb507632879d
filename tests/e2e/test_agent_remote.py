"""An agent and a controller on another machine: forgotten, cut off, given up, contradicted; each job runs as it should."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from spurproc import Liveness, ProcessIdentity
from spurproc.agent.controller.link import AttemptReport, Beat, NodeDescription
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import job_spec
from tests.agents import NOTHING_LEFT, Agents
from tests.node_tree import NodeTree
from tests.remote_controller import Loss, RemoteController
from tests.remote_wire import RemoteMachine
from tests.spurd_program import AGAIN_VARIABLE
from tests.steps import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_BEATS = {"heartbeat-interval-s": "0.2"}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[RemoteMachine]:
    with RemoteMachine(str(tmp_path / "remote")) as machine:
        yield machine


def _script(text: str) -> JobSpec:
    return job_spec(script=f"#!/bin/sh\n{text}\n".encode())


def _code(machine: RemoteMachine, job: int) -> int | None:
    """What its end says, once that is reported."""
    machine.until(lambda controller: controller.jobs[job].report)
    report = machine.controller.jobs[job].report
    assert report is not None
    return report.end.code


def test_an_order_that_was_never_written_down_is_given_again(tmp_path: Path, machine: RemoteMachine) -> None:
    """Its agent had it in hand, and may have shown so: that counted for as long as it was registered."""
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start(crash="store.attempts.accept before 1 SIGKILL") as agent:
        job = machine.do(lambda controller: controller.submit(_script(f"echo >>{tmp_path}/ran; exit 6")))
        assert agent.wait() == -9
        agent.start()
        assert _code(machine, job) == 6
        agent.until("1.1", "none")
        assert (tmp_path / "ran").read_text() == "\n"


def test_a_node_registers_once_works_and_is_taken_out_of_the_books(tmp_path: Path, machine: RemoteMachine) -> None:
    """Its answers are lost on the way: each is said again, and does nothing twice. In the end nothing is left on either side."""
    machine.down()
    machine.do(lambda controller: controller.losing.update({NodeDescription: [Loss.ANSWER], str: [Loss.ANSWER]}))
    machine.do(lambda controller: controller.losing.update({AttemptReport: [Loss.MESSAGE, Loss.ANSWER]}))
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        job = machine.do(lambda controller: controller.submit(_script(f"echo >>{tmp_path}/ran; exit 7")))
        assert agent.ask("attempts") == {}
        machine.up()
        assert _code(machine, job) == 7
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert (tmp_path / "ran").read_text() == "\n"
        assert len(machine.heard(NodeDescription)) == 2, "the first answer was lost"
        assert machine.heard(AttemptReport)[0] == machine.heard(AttemptReport)[-1]
        assert agent.stop() == 0
        assert machine.controller.node is None


def test_a_controller_that_does_not_answer_keeps_no_agent_from_ending(tmp_path: Path, machine: RemoteMachine) -> None:
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        machine.until(lambda controller: any(isinstance(one, Beat) for one in controller.sent))
        machine.do(lambda controller: controller.answering.clear())
        assert agent.stop() == 0
        assert "deregistered=false" in agent.await_fact("ends")
        machine.do(lambda controller: controller.answering.set())
        assert machine.controller.node is None


def test_a_controller_that_has_forgotten_the_node_is_told_again_of_it(tmp_path: Path, machine: RemoteMachine) -> None:
    """It is registered anew, with a beat of the new generation; a job that runs meanwhile notices nothing."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        job = machine.do(lambda controller: controller.submit(_script(f"read x <{gate.path}; exit 3")))
        agent.until("1.1", "running")
        machine.do(lambda controller: controller.forget_node())
        machine.until(lambda controller: controller.generation == 2)
        machine.until(lambda controller: Beat(generation=2, running=(AttemptId(job, 1),)) in controller.sent)
        agent.kill()
        agent.start()
        machine.until(lambda controller: controller.generation == 3)
        gate.open()
        assert _code(machine, job) == 3
        assert len(machine.heard(AttemptReport)) == 1


def test_a_node_that_was_silent_too_long_gives_back_what_was_given_up(tmp_path: Path, machine: RemoteMachine) -> None:
    """Its attempt ends, and the next one of that job runs, which the reclaim does not mean however often it is said."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        job = machine.do(
            lambda controller: controller.submit(_script(f"echo $SPURD_RUN_ATTEMPT >>{tmp_path}/ran; read x <{gate.path}"))
        )
        agent.until("1.1", "running")
        first = ProcessIdentity.of(agent.leader(job))
        agent.freeze()
        machine.now_s += 61
        agent.thaw()
        agent.until("1.2", "running")
        agent.until("1.1", "none")
        assert first.liveness() is Liveness.GONE
        beats = len(machine.heard(Beat))
        machine.do(lambda controller: controller.reclaim(AttemptId(job, 1)))
        machine.until(lambda controller: sum(isinstance(one, Beat) for one in controller.sent) >= beats + 2)
        assert agent.ask("attempts") == {"1.2": {"state": "running", "held": None}}
        machine.do(lambda controller: controller.reclaim(AttemptId(job, 2)))
        machine.until(lambda controller: controller.jobs[job].report)
        report = machine.heard(AttemptReport)[-1]
        assert (report.attempt, str(report.end), report.cancelled) == (AttemptId(job, 2), "killed by SIGTERM", True)
        assert (tmp_path / "ran").read_text() == "1\n2\n"


def test_what_its_controller_has_given_up_is_over_though_it_takes_no_report(tmp_path: Path, machine: RemoteMachine) -> None:
    """Nothing of it stays on the node, which may leave the books."""
    machine.do(lambda controller: controller.refused.add(AttemptId(1, 1)))
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        machine.do(lambda controller: controller.submit(_script("sleep 600")))
        agent.until("1.1", "running")
        machine.do(lambda controller: controller.reclaim(AttemptId(1, 1)))
        agent.await_fact("forgotten")
        assert machine.controller.jobs[1].report is None
        assert (agent.ask("attempts"), agent.folders()) == ({}, NOTHING_LEFT)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_report_that_was_refused_is_owed_nobody_once_a_later_attempt_was_run(
    tmp_path: Path, machine: RemoteMachine, *, restarted: bool
) -> None:
    machine.do(lambda controller: controller.refused.add(AttemptId(1, 1)))
    agents = Agents(tmp_path / "state", _BEATS, remote=machine.path)
    agents.env[AGAIN_VARIABLE] = "5" if restarted else "1"
    with agents.start() as agent:
        machine.do(lambda controller: controller.submit(_script("exit 0")))
        agent.ask("refused 1.1")
        machine.do(lambda controller: controller.requeue(1))
        agent.await_fact("forgotten")
        if restarted:
            agent.kill()
            agent.start()
        agent.until("1.1", "none")
        assert agent.ask("attempts") == {}


def test_that_it_was_given_up_is_known_to_the_next_agent(tmp_path: Path, machine: RemoteMachine) -> None:
    machine.do(lambda controller: controller.refused.add(AttemptId(1, 1)))
    machine.do(lambda controller: controller.losing.update({AttemptReport: [Loss.MESSAGE] * 99}))
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        machine.do(lambda controller: controller.submit(_script("sleep 600")))
        agent.until("1.1", "running")
        machine.do(lambda controller: controller.reclaim(AttemptId(1, 1)))
        agent.until("1.1", "reporting")
        agent.kill()
        machine.do(lambda controller: controller.losing.clear())
        agent.start()
        agent.await_fact("forgotten")
        assert agent.ask("attempts") == {}


def test_a_cancel_is_said_until_it_is_heard_and_a_refused_report_hinders_no_other(tmp_path: Path, machine: RemoteMachine) -> None:
    """Over a restart of the agent and one of the controller."""
    machine.do(lambda controller: controller.refused.add(AttemptId(1, 1)))
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        jobs = [machine.do(lambda controller: controller.submit(_script("sleep 600"))) for _ in range(2)]
        for job in jobs:
            agent.until(f"{job}.1", "running")
        agent.kill()
        for job in jobs:
            machine.do(partial(RemoteController.cancel, job_id=job))
        machine.down()
        agent.start()
        machine.up()
        machine.until(lambda controller: controller.jobs[2].report)
        agent.await_fact("its report was refused")
        agent.until("2.1", "none")
        assert [str(report.end) for report in machine.heard(AttemptReport)][-1] == "killed by SIGTERM"
        assert agent.ask("attempts") == {"1.1": {"state": "reporting", "held": None}}
        assert agent.ask("claims") == {}
        assert machine.controller.jobs[1].report is None


def test_what_changed_while_a_registration_was_on_its_way_is_what_the_controller_has(
    tmp_path: Path, machine: RemoteMachine
) -> None:
    """No description that is older by then is left standing."""
    tree = NodeTree("nvidia", tmp_path)
    machine.do(lambda controller: controller.answering.clear())
    with Agents(tmp_path / "state", _BEATS, root=tree.root, remote=machine.path).start() as agent:
        machine.until(lambda controller: controller.node)
        for place in ("/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"):
            tree.remove(f"{place}/0000:41:00.0")
        for _ in range(2):
            agent.ask("inventory")
        assert [len(node.totals.gpus) for node in machine.heard(NodeDescription)] == [2]
        machine.do(lambda controller: controller.answering.set())
        machine.until(lambda controller: controller.generation == 2)
        assert [len(node.totals.gpus) for node in machine.heard(NodeDescription)] == [2, 1]


def test_what_is_given_out_again_after_its_report_is_told_again_and_not_run_again(tmp_path: Path, machine: RemoteMachine) -> None:
    """Also by another agent. Of an attempt before the latest one nobody knows how it ended, but that it is not to be run."""
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        job = machine.do(lambda controller: controller.submit(_script(f"echo $SPURD_RUN_ATTEMPT >>{tmp_path}/ran; exit 7")))
        for again in (partial(agent.kill), partial(agent.stop)):
            assert _code(machine, job) == 7
            agent.until("1.1", "none")
            machine.do(lambda controller: controller.restore(job))
            assert _code(machine, job) == 7
            again()
            agent.start()
            machine.do(lambda controller: controller.restore(job))
        assert _code(machine, job) == 7
        machine.do(lambda controller: controller.requeue(job))
        assert _code(machine, job) == 7
        agent.until("1.2", "none")
        assert len(set(map(str, machine.heard(AttemptReport)))) == 2
        machine.do(lambda controller: controller.restore(job))
        assert _code(machine, job) is None
        assert "was run" in str(machine.heard(AttemptReport)[-1].end)
        assert (tmp_path / "ran").read_text() == "1\n2\n"
        assert (agent.ask("claims"), agent.folders()) == ({}, NOTHING_LEFT)


def test_a_node_that_drains_gets_nothing_new_and_still_hears_what_to_end(tmp_path: Path, machine: RemoteMachine) -> None:
    """The drain is told without a registration, and so is its end."""
    with Agents(tmp_path / "state", _BEATS, remote=machine.path).start() as agent:
        job = machine.do(lambda controller: controller.submit(_script("sleep 600")))
        agent.until("1.1", "running")
        agent.ask("drain")
        machine.until(lambda controller: ("by the test",) in controller.sent)
        other = machine.do(lambda controller: controller.submit(_script("exit 5")))
        machine.do(lambda controller: controller.cancel(job))
        machine.until(lambda controller: controller.jobs[job].report)
        assert not machine.controller.jobs[other].dispatched
        agent.ask("undrain")
        assert _code(machine, other) == 5
        assert len(machine.heard(NodeDescription)) == 1
