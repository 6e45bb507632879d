"""spurd from end to end, as people use it: a real agent, real jobs, real users."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.agent.node.limits import not_enforced
from spurproc.client.host_link import PROGRAM_VARIABLE
from spurproc.core.cgroup.root import find_cgroup_root
from tests.agents import Agents
from tests.inspect_program import Said
from tests.relatives import NOBODY, in_fork
from tests.spurd_command import PROGRAM, Spurd, ended, line_of
from tests.steps import WAIT_S, Gate, host_without_cgroups

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


@pytest.fixture
def agent(commons: Path) -> Iterator[Agents]:
    """An agent that every user may reach, with two CPUs."""
    with Agents(commons / "state", cpus=2).start() as made:
        yield made


@pytest.fixture
def spurd(agent: Agents) -> Spurd:
    """The program, for that agent."""
    return Spurd(agent.path)


def test_the_program_serves_and_all_of_a_job_is_seen(commons: Path) -> None:
    spurd = Spurd(commons / "state")
    script = commons / "job.sh"
    script.write_text('#!/bin/sh\necho "got $1 on $SPURD_CPUS as $(id -u), ${SECRET-none}"\nexit 7\n')
    with Agents(commons / "state") as agent, agent.log.open("ab") as log:
        agent.process = subprocess.Popen(
            [PROGRAM, "serve"], stdin=subprocess.DEVNULL, stderr=log, env=spurd.env | {"SECRET": "x"}
        )
        agent.await_fact("serves")
        submitted = spurd("submit", "--wait", "--name", "it", script, "this", cwd=commons)
        assert (submitted.code, submitted.err) == (7, "")
        assert submitted.out.splitlines()[-1] == "job 1.1: exited 7"
        assert spurd("logs", 1) == (0, "got this on 0 as 0, none\n", "")
        [attempt] = spurd.json("show", 1)["attempts"]
        assert attempt["exit"]["code"] == 7
        assert attempt["stdout"] == f"{commons}/job-1.1.out"
        assert attempt["started_at"] <= attempt["ended_at"]
        assert "exited 7" in spurd.here("jobs", "-a").out
        assert agent.stop() == 0
    assert spurd.here("status").code == 3


def test_the_settings_are_options(commons: Path) -> None:
    done = subprocess.run([PROGRAM, "serve", "--state-dir", commons / "s", "--cpus", "no"], capture_output=True, check=False)
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert (said.code, said.out) == (2, "")
    assert said.err == "spurd: cannot use cpus (flag --cpus): 'no' is not a list of CPUs such as 0-3,8\n"
    assert not (commons / "s").exists()


def test_a_job_is_suspended_resumed_and_cancelled(spurd: Spurd, agent: Agents, commons: Path) -> None:
    gate = Gate(commons / "gate")
    assert spurd.here("submit", "--workdir", commons, "--", "sh", "-c", f"read x <{gate.path}").code == 0
    agent.until("1.1", "running")
    agent.until_executed(1)
    assert spurd.here("suspend", 1).code == 0
    agent.until("1.1", "suspended")
    assert "suspended" in spurd.here("jobs").out
    assert spurd.here("resume", 1).code == 0
    agent.until("1.1", "running")
    assert spurd.here("cancel", 1, "--why", "enough").code == 0
    assert spurd.here("wait", 1).code == 128 + signal.SIGTERM
    [attempt] = spurd.json("show", 1)["attempts"]
    assert (attempt["cancelled"], attempt["cancelled_because"], attempt["exit"]["signal"]) == (True, "enough", signal.SIGTERM)
    assert spurd.here("suspend", 1).code in (1, 6)


def test_a_wait_outlives_the_agent(spurd: Spurd, agent: Agents, commons: Path) -> None:
    """Killed while the job runs, and started again; the job notices nothing, and neither does who waits."""
    gate = Gate(commons / "gate")
    with spurd.start("submit", "--wait", "--workdir", str(commons), "--", "sh", "-c", f"read x <{gate.path}; exit 9") as process:
        while not line_of(process).endswith("running"):
            continue
        agent.kill()
        while "asking again" not in line_of(process):
            continue
        agent.start()
        gate.open()
        said = ended(process)
    assert (said.code, said.err) == (9, "")
    assert said.out.splitlines()[-1] == "job 1.1: exited 9"


def test_logs_are_followed_over_a_restart(spurd: Spurd, agent: Agents, commons: Path) -> None:
    gate = Gate(commons / "gate")
    script = f"echo one; read x <{gate.path}; echo two"
    assert spurd.here("submit", "--workdir", commons, "--", "sh", "-c", script).code == 0
    with spurd.start("logs", "-f", "1") as process:
        assert line_of(process) == "one"
        agent.kill()
        agent.start()
        gate.open()
        assert ended(process) == (0, "two\n", "")


def test_what_is_reserved_is_given_to_no_job(spurd: Spurd, agent: Agents, commons: Path) -> None:
    with spurd.start("alloc", "--cpus", "2") as holder:
        assert line_of(holder).split() == ["has", "CPU", "0-1"]
        assert spurd.json("status")["free"]["cpus"] == []
        assert spurd.here("alloc").code == 6
        assert spurd.here("alloc", "--cpus", 3).code == 5
        assert spurd.here("submit", "--workdir", commons, "--", "true").code == 0
        assert spurd.json("show", 1)["job"]["state"] == "queued"
        holder.send_signal(signal.SIGKILL)
        assert holder.wait(WAIT_S) == -signal.SIGKILL
        assert holder.stdout is not None
        assert holder.stderr is not None
    assert spurd.here("wait", 1).code == 0


def test_a_drained_node_starts_nothing_and_stays_so(spurd: Spurd, agent: Agents, commons: Path) -> None:
    assert spurd.here("drain", "--why", "new disk").code == 0
    agent.kill()
    agent.start()
    assert [drain["why"] for drain in spurd.json("status")["drains"]] == ["new disk"]
    assert spurd.here("submit", "--workdir", commons, "--", "true").code == 0
    assert spurd.here("wait", 1, "--timeout", "0.3").code == 124
    assert spurd.here("undrain").code == 0
    assert spurd.here("wait", 1).code == 0
    assert spurd.here("requeue", 1).code == 0
    assert spurd.here("wait", 1).code == 0
    assert [one["exit"]["code"] for one in spurd.json("show", 1)["attempts"]] == [0, 0]


def test_a_job_that_cannot_start_says_why(spurd: Spurd, commons: Path) -> None:
    """With the name of what is missing, wherever it is told: while somebody waits, in the list, in the record."""
    for job, (folder, program, why) in enumerate(
        (
            (commons, "nosuchprog", "cannot run 'nosuchprog': No such file or directory"),
            (commons, commons, f"cannot run '{commons}': Permission denied"),
            (commons / "none", "true", f"cannot enter the work folder '{commons}/none': No such file or directory"),
        ),
        start=1,
    ):
        said = spurd.here("submit", "--wait", "--workdir", folder, "--", program)
        assert (said.code, said.out.splitlines()[-1]) == (126, f"job {job}.1: not started: {why}")
        assert f"not started: {why}" in spurd.here("show", job).out
    assert "not started: cannot run 'nosuchprog'" in spurd.here("jobs", "-a").out


def test_a_reservation_comes_before_no_job_that_waits(spurd: Spurd, agent: Agents, commons: Path) -> None:
    """Else who reserves again and again would keep others out for ever."""
    gate = Gate(commons / "gate")
    assert spurd.here("submit", "--workdir", commons, "--", *gate.script()).code == 0
    agent.until("1.1", "running")
    assert spurd.here("submit", "--cpus", 2, "--workdir", commons, "--", "true").code == 0
    said = spurd.here("alloc", "--for", "0.1")
    assert (said.code, said.err) == (6, "spurd: cannot reserve: jobs wait in the queue, and come first\n")
    said = spurd.here("alloc", "--cpus", 3)
    assert (said.code, said.err) == (5, "spurd: cannot reserve: CPUs: 3 wanted, 1 of 2 free\n")
    gate.open()
    assert spurd.here("wait", 2).code == 0
    agent.until("2.1", "none")
    assert spurd.here("alloc", "--for", "0.1").code == 0


def test_what_a_job_is_not_held_to_is_told_while_it_runs_and_afterwards(
    commons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a host of steps that may make no cgroup, so that it is the same on every machine."""
    monkeypatch.setenv(PROGRAM_VARIABLE, str(host_without_cgroups(tmp_path)))
    limits = ["memory.max", "pids.max", "cpu.max"]
    with Agents(commons / "state").start() as agent:
        spurd, gate = Spurd(agent.path), Gate(commons / "gate")
        words = ["--memory", "1M", "--pids", 9, "--workdir", commons, "--", *gate.script()]
        assert spurd.here("submit", *words).code == 0
        agent.until("1.1", "running")
        assert "not_enforced=\"['memory.max', 'pids.max', 'cpu.max']\"" in agent.await_fact("launched")
        assert spurd.json("show", 1)["attempts"][0]["not_enforced"] == limits
        gate.open()
        assert spurd.here("wait", 1).code == 0
        agent.until("1.1", "none")
        assert spurd.json("show", 1)["attempts"][0]["not_enforced"] == limits
        assert f"not held    to {', '.join(limits)}: see `spurd status`\n" in spurd.here("show", 1).out
        assert spurd.json("status")["not_enforced"] == not_enforced(find_cgroup_root())


def test_a_time_limit_ends_a_job(spurd: Spurd, commons: Path) -> None:
    gate = Gate(commons / "gate")
    words = ["--kill-plan", "KILL", "--time-limit", "0.3", "--workdir", commons, "--", "sh", "-c", f"read x <{gate.path}"]
    assert spurd.here("submit", "--wait", *words).code == 128 + signal.SIGKILL


def test_another_user_runs_as_themselves_and_touches_nothing_else(spurd: Spurd, agent: Agents, commons: Path) -> None:
    gate = Gate(commons / "gate")
    assert spurd.here("submit", "--workdir", commons, "-o", "root.out", "--", *gate.script()).code == 0
    agent.until("1.1", "running")
    folder = commons / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)

    def act() -> list[object]:
        run = spurd.here("submit", "--wait", "--workdir", folder, "--", "sh", "-c", "id -u; id -G; exit 5")
        logs = spurd.here("logs", 2)
        refused = [spurd.here(verb, 1).code for verb in ("show", "cancel", "suspend", "resume", "requeue", "logs")]
        return [run.code, refused, spurd.here("drain").code, spurd.json("jobs", "-a")["jobs"][0]["user"], logs.code]

    code, refused, drain, user, logs = in_fork(act, uid=NOBODY)
    assert (code, refused, drain, user, logs) == (5, [1] * 6, 1, "nobody", 0)
    output = folder / "job-2.1.out"
    assert output.read_text() == f"{NOBODY}\n{NOBODY}\n"
    assert output.stat().st_uid == NOBODY
    assert spurd("logs", 2).out == output.read_text()
    assert spurd.json("show", 1)["job"]["phase"] == "running"
    gate.open()
    assert spurd.here("wait", 1).code == 0
