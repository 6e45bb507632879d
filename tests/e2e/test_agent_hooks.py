"""The node's prolog and epilog: once each, as recorded runs; what fails drains the node, and what is not known has failed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spurproc import SpawnPlan, launch_recorded
from spurproc.agent.attempts.hooks import HookName, HookPlan, _left_s
from spurproc.core.vantage import read_boot_id
from spurproc.proto.attempt_id import AttemptId
from tests.agents import NOTHING_LEFT, Agents
from tests.spurd_program import AHEAD_VARIABLE
from tests.steps import WAIT_S, Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


ANOTHER_BOOT = "00000000-0000-4000-8000-000000000000"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _clock_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _shell(script: str) -> str:
    return f"/bin/sh -c '{script}'"


def test_they_are_told_what_they_are_about_and_nothing_else(tmp_path: Path) -> None:
    """The job, its user, the node, and to the epilog how it ended; no variable of the agent's own."""
    hooks = {f"{name}-argv": _shell(f"env | sort >{tmp_path}/{name}") for name in ("prolog", "epilog")}
    with Agents(tmp_path / "state", hooks | {"node-name": "n1"}).start() as agent:
        agent.ended(agent.submit("exit 3", name="mine"))
        agent.until("1.1", "none")
        names = {line.partition("=")[0]: line.partition("=")[2] for line in (tmp_path / "epilog").read_text().splitlines()}
        told = {name: value for name, value in names.items() if name.startswith("SPURD_")}
        assert told == {
            "SPURD_HOOK": "epilog",
            "SPURD_JOB_ID": "1",
            "SPURD_RUN_ATTEMPT": "1",
            "SPURD_NODE": "n1",
            "SPURD_JOB_NAME": "mine",
            "SPURD_JOB_UID": "0",
            "SPURD_JOB_USER": "root",
            "SPURD_JOB_END": "exited 3",
        }
        assert set(names) - set(told) <= {"PATH", "PWD", "SHLVL", "_"}
        assert "SPURD_JOB_END" not in (tmp_path / "prolog").read_text()


def test_a_failed_prolog_fails_the_launch_and_drains(tmp_path: Path) -> None:
    """The job never runs, the node is to blame, its epilog runs all the same; and nothing more is taken until it is undrained."""
    hooks = {"prolog-argv": _shell(f"test -e {tmp_path}/mended"), "epilog-argv": _shell(f"echo >>{tmp_path}/epilog")}
    with Agents(tmp_path / "state", hooks).start() as agent:
        job = agent.submit(f"touch {tmp_path}/ran")
        told = agent.ask(f"ended {job}")
        assert told["end"] == "not started: ended before exec at stage NONE"
        assert told["fault"] == "the node's prolog failed: exited 1"
        agent.until("1.1", "none")
        assert not (tmp_path / "ran").exists()
        assert (tmp_path / "epilog").read_text() == "\n"
        assert agent.ask("drains") == ["the prolog of attempt 1.1 failed: exited 1"]
        waits = agent.submit("exit 4")
        agent.kill()
        (tmp_path / "mended").touch()
        agent.start()
        assert agent.ask("drains") == ["the prolog of attempt 1.1 failed: exited 1"]
        assert agent.ask("attempts") == {}
        agent.ask("undrain")
        assert agent.ended(waits) == "exited 4"
        assert agent.ask("drains") == []
        agent.until("2.1", "none")


def test_a_failed_epilog_drains_and_its_job_is_told_as_it_ended(tmp_path: Path) -> None:
    """Its resources are free again: the node takes nothing until somebody has looked."""
    with Agents(tmp_path / "state", {"epilog-argv": "/bin/false"}).start() as agent:
        assert agent.ask(f"ended {agent.submit('exit 5')}") == {"end": "exited 5", "cancelled": False, "fault": None}
        agent.until("1.1", "none")
        assert agent.ask("drains") == ["the epilog of attempt 1.1 failed: exited 1"]
        assert agent.ask("claims") == {}
        assert agent.folders() == NOTHING_LEFT


def test_the_end_is_told_before_the_epilog_and_its_resources_are_free_after_it(tmp_path: Path) -> None:
    """Who waits for the job need not wait for the node to be cleaned up; who wants its CPU has to."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", {"epilog-argv": _shell(f"read x <{gate.path}")}).start() as agent:
        assert agent.ended(agent.submit("exit 6")) == "exited 6"
        agent.until("1.1", "epilog")
        assert agent.ask("claims") == {"1.1": [0]}
        gate.open()
        agent.until("1.1", "none")
        assert agent.ask("claims") == {}


@pytest.mark.parametrize("name", ["prolog", "epilog"])
def test_a_restart_in_the_middle_of_one_waits_for_the_same(tmp_path: Path, name: str) -> None:
    """It is not run again, and what it says counts."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    hook = _shell(f"echo >>{tmp_path}/hook; echo >{begun.path}; read x <{gate.path}; exit 9")
    with Agents(tmp_path / "state", {f"{name}-argv": hook}).start() as agent:
        job = agent.submit("exit 2")
        assert begun.path.read_text() == "\n"
        agent.kill()
        agent.start()
        agent.until("1.1", name)
        gate.open()
        expected = "exited 2" if name == "epilog" else "not started: ended before exec at stage NONE"
        assert agent.ended(job) == expected
        agent.until("1.1", "none")
        assert (tmp_path / "hook").read_text() == "\n"
        assert agent.ask("drains") == [f"the {name} of attempt 1.1 failed: exited 9"]


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_prolog_counts_for_the_boot_in_which_it_has_run(tmp_path: Path, *, rebooted: bool) -> None:
    """What it has prepared is gone with a reboot, before which its job was not launched any more."""
    hooks = {"prolog-argv": _shell(f"echo >>{tmp_path}/prologs")}
    with Agents(tmp_path / "state", hooks).start(crash="PREPARE before 1 SIGKILL") as agent:
        job = agent.submit("exit 3")
        agent.wait()
        record = agent.path / "hooks" / "1.1.prolog" / "run.json"
        if rebooted:
            record.write_bytes(record.read_bytes().replace(read_boot_id().encode(), ANOTHER_BOOT.encode()))
        agent.start()
        assert agent.ended(job) == "exited 3"
        assert (tmp_path / "prologs").read_text() == ("\n\n" if rebooted else "\n")
        agent.until("1.1", "none")
        assert (agent.folders(), agent.ask("drains")) == (NOTHING_LEFT, [])


def test_a_hook_whose_end_nobody_knows_has_failed(tmp_path: Path) -> None:
    """Its recorder was killed with it while no agent was there."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    hook = _shell(f"echo >{begun.path}; read x <{gate.path}")
    with Agents(tmp_path / "state", {"prolog-argv": hook}).start() as agent:
        job = agent.submit("exit 2")
        assert begun.path.read_text() == "\n"
        agent.kill()
        agent.kill_hook("1.1.prolog")
        agent.start()
        assert "nobody knows how it ended" in agent.ask(f"ended {job}")["fault"]
        assert len(agent.ask("drains")) == 1


def test_one_that_takes_too_long_is_ended_and_has_failed(tmp_path: Path) -> None:
    """With all that it has started."""
    gate = Gate(tmp_path / "gate")
    hooks = {"prolog-argv": _shell(f"read x <{gate.path}"), "prolog-timeout-s": "0.5"}
    with Agents(tmp_path / "state", hooks).start() as agent:
        job = agent.submit("exit 2")
        assert agent.ask(f"ended {job}")["fault"] == "the node's prolog failed: it was ended after 0.5 s"
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT


@pytest.mark.parametrize("in_time", [False, True])
def test_the_time_of_one_counts_over_restarts(tmp_path: Path, *, in_time: bool) -> None:
    """An agent that comes when it is over ends it at once; what has ended in time by itself, with nobody there, has passed."""
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")
    hooks = {"prolog-argv": _shell(f"echo >{begun.path}; read x <{gate.path}; exit 0"), "prolog-timeout-s": "1000"}
    with Agents(tmp_path / "state", hooks).start() as agent:
        job = agent.submit("exit 2")
        assert begun.path.read_text() == "\n"
        for ahead_s in ("900", "2000"):
            agent.kill()
            agent.env[AHEAD_VARIABLE] = ahead_s
            if in_time and ahead_s == "2000":
                gate.open()
                agent.hook_ended("1.1.prolog")
            agent.start()
            assert ahead_s == "2000" or agent.until("1.1", "prolog") == "prolog"
        fault = None if in_time else "the node's prolog failed: it was ended after 1000 s"
        assert agent.ask(f"ended {job}")["fault"] == fault
        agent.until("1.1", "none")


def test_its_time_begins_with_its_first_process(tmp_path: Path) -> None:
    """By the clock that its start ticks are of."""
    plan = HookPlan(name=HookName.PROLOG, attempt=AttemptId(1, 1), argv=("/bin/true",), timeout_s=1000.0, env={})
    before_s = _clock_s()
    with launch_recorded(SpawnPlan(argv=["/bin/true"], env={}), tmp_path / "run") as run:
        launched_s = _clock_s()
        run.wait(WAIT_S)
        asked_s = _clock_s()
        age_s = plan.timeout_s - _left_s(plan, run)
        assert asked_s - launched_s - _TICK_S <= age_s <= _clock_s() - before_s + _TICK_S
        run.remove(WAIT_S)


def test_an_epilog_that_is_not_configured_any_more_is_owed_no_more(tmp_path: Path) -> None:
    with Agents(tmp_path / "state", {"epilog-argv": _shell("exit 9")}).start(crash="RUN_EPILOG before 1 SIGKILL") as agent:
        job = agent.submit("exit 2")
        assert agent.wait() == -9
        del agent.settings["epilog-argv"]
        agent.start()
        assert agent.ended(job) == "exited 2"
        agent.until("1.1", "none")
        assert agent.ask("drains") == []
