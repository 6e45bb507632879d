"""Cancel, suspend, requeue: of exactly one attempt, durable before anything is signalled, and told as it really went."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from spurproc import KillPlan, Pidfd, WaitTimeout
from spurproc.proto.runtime_id import BATCH_STEP
from tests.agents import NOTHING_LEFT, Agents
from tests.steps import WAIT_S, Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def _script(gate: Gate) -> str:
    return f"echo $SPURD_RUN_ATTEMPT; read x <{gate.path}; exit 4"


def test_the_record_says_both_that_it_was_cancelled_and_how_it_ended(tmp_path: Path) -> None:
    """Its kill plan is walked: one that has a trap ends as it likes."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"trap 'exit 9' TERM; echo >{gate.path}; while :; do sleep 0.1; done")
        assert gate.path.read_text() == "\n"
        assert agent.ask(f"cancel {job}") == "asked"
        assert agent.ask(f"ended {job}") == {"end": "exited 9", "cancelled": True, "fault": None}
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert agent.ask(f"cancel {job}") == "over"


def test_one_that_ignores_the_first_signal_gets_the_next(tmp_path: Path) -> None:
    """By its own plan."""
    gate = Gate(tmp_path / "gate")
    plan = KillPlan(steps=((15, 0.2), (9, None)))
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"trap '' TERM; echo >{gate.path}; while :; do sleep 0.1; done", kill_plan=plan)
        gate.path.read_text()
        agent.ask(f"cancel {job}")
        assert agent.ended(job) == "killed by SIGKILL"


def test_a_job_that_waits_for_its_prolog_is_never_launched(tmp_path: Path) -> None:
    """The prolog is waited for, and its epilog cleans up behind it."""
    gate, ran = Gate(tmp_path / "gate"), tmp_path / "ran"
    hooks = {"prolog-argv": f"/bin/sh -c 'read x <{gate.path}; exit 0'", "epilog-argv": f"/bin/sh -c 'echo >{tmp_path}/epilog'"}
    with Agents(tmp_path / "state", hooks).start() as agent:
        job = agent.submit(f"touch {ran}")
        agent.until("1.1", "prolog")
        agent.ask(f"cancel {job}")
        gate.open()
        told = agent.ask(f"ended {job}")
        assert told == {"end": "not started: ended before exec at stage NONE", "cancelled": True, "fault": None}
        agent.until("1.1", "none")
        assert agent.ask("drains") == []
        assert (tmp_path / "epilog").exists()
        assert not ran.exists()


def test_a_killed_agent_goes_on_with_ending_it(tmp_path: Path) -> None:
    """The intent was durable before the first signal; and however often it is killed, that puts no end off."""
    with Agents(tmp_path / "state").start() as agent, _told_to_end(agent, tmp_path / "gate", 4.0) as leader:
        for _ in _while_it_lives(leader):
            agent.kill()
            agent.start()
        assert agent.ask("ended 1") == {"end": "killed by SIGKILL", "cancelled": True, "fault": None}
        assert (tmp_path / "gate.told").read_text() == "told\n"


def test_who_cancels_again_and_again_puts_no_end_off(tmp_path: Path) -> None:
    with Agents(tmp_path / "state").start() as agent, _told_to_end(agent, tmp_path / "gate", 1.0) as leader:
        for _ in _while_it_lives(leader):
            agent.ask("cancel 1")
        assert agent.ended(1) == "killed by SIGKILL"


@contextmanager
def _told_to_end(agent: Agents, gate: Path, grace_s: float) -> Iterator[Pidfd]:
    """A job that is deaf, and has some time."""
    os.mkfifo(gate)
    plan = KillPlan(steps=((15, grace_s), (9, None)))
    agent.submit(f"trap 'echo told >>{gate}.told' TERM; echo >{gate}; while :; do sleep 0.1; done", kill_plan=plan)
    gate.read_text()
    leader = agent.steps.descriptor_of(1, 1, BATCH_STEP).leader
    assert leader is not None
    with leader.open() as held:
        agent.ask("cancel 1")
        agent.until("1.1", "ending")
        yield held


def _while_it_lives(leader: Pidfd) -> Iterator[None]:
    """As often as it can be done in its time, and not for ever."""
    given_up_s = time.monotonic() + WAIT_S
    while time.monotonic() < given_up_s:
        with suppress(WaitTimeout):
            leader.wait(0.1, reap_grace_s=0)
            return
        yield
    raise AssertionError("it lives on")


def test_a_job_that_ended_while_no_agent_was_there_is_told_as_it_ended(tmp_path: Path) -> None:
    """Not as the agent might have ended it: its supervisor was told nothing."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(_script(gate))
        agent.until("1.1", "running")
        agent.kill()
        gate.open()
        agent.steps_ended(1)
        agent.start()
        assert agent.ended(job) == "exited 4"
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT


def test_requeued_it_runs_once_more_as_another_attempt(tmp_path: Path) -> None:
    """The one that runs ends first; each has an output and an end of its own."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(_script(gate), stdout=str(tmp_path / "out-%a"))
        agent.until("1.1", "running")
        assert agent.ask(f"requeue {job}") == "1.2"
        agent.until("1.2", "running")
        gate.open()
        assert agent.ended(job) == "exited 4"
        assert agent.ask(f"history {job}") == ["killed by SIGTERM", "exited 4"]
        assert (tmp_path / "out-2").read_text() == "2\n"
        agent.until("1.2", "none")
        assert agent.folders() == NOTHING_LEFT


def test_a_suspended_job_stays_so_over_a_restart(tmp_path: Path) -> None:
    """It stands still until it is resumed, and then ends as it would have."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(_script(gate))
        agent.until("1.1", "running")
        agent.until_executed(job)
        agent.ask("suspend 1.1")
        agent.until("1.1", "suspended")
        agent.ask("suspend 1.1")
        agent.kill()
        agent.start()
        assert agent.ask("attempts")["1.1"]["state"] == "suspended"
        agent.ask("resume 1.1")
        agent.until("1.1", "running")
        gate.open()
        assert agent.ended(job) == "exited 4"


def test_a_suspended_job_can_be_cancelled(tmp_path: Path) -> None:
    """It is thawed by its kill plan."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(_script(gate))
        agent.until("1.1", "running")
        agent.until_executed(job)
        agent.ask("suspend 1.1")
        agent.until("1.1", "suspended")
        agent.ask(f"cancel {job}")
        assert agent.ended(job) == "killed by SIGTERM"
