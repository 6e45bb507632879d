"""What an agent finds at its start: the step folders say what ran, the store what is owed; nothing happens twice."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spurproc import Liveness
from spurproc.agent.jobs.job_spec import RequeuePolicy
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.core.vantage import read_boot_id
from spurproc.proto.codec import PROTOCOL_VERSION
from tests.agents import NOTHING_LEFT, Agents, step_of
from tests.node_tree import NodeTree
from tests.releases import NEXT_AGENT, Site
from tests.steps import Gate, Steps

ANOTHER_BOOT = "00000000-0000-4000-8000-000000000000"
pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def _held_jobs(agent: Agents, tmp_path: Path, count: int) -> tuple[Gate, list[int]]:
    """So many that run, each with an output of its own, until the gate is opened for each."""
    gate = Gate(tmp_path / "gate")
    jobs = [
        agent.submit(f"echo once; read x <{gate.path}; exit $SPURD_JOB_ID", stdout=str(tmp_path / "out-%j")) for _ in range(count)
    ]
    for job in jobs:
        agent.until(f"{job}.1", "running")
    return gate, jobs


@pytest.mark.parametrize("count", [1, 20, 200])
def test_all_are_found_again_as_they_were(tmp_path: Path, count: int) -> None:
    """SIGKILL, SIGTERM, a newer release: the same processes, the same CPUs, one line of output each, and their true ends."""
    newer = Site(tmp_path / "site")
    newer.install(NEXT_AGENT)
    with Agents(tmp_path / "state", cpus=count).start() as agent:
        gate, jobs = _held_jobs(agent, tmp_path, count)
        leaders = {job: agent.leader(job) for job in jobs}
        claims = agent.ask("claims")
        for end, release in ((agent.kill, None), (agent.stop, None), (agent.kill, newer)):
            end()
            agent.release = release
            agent.start()
            assert {job: agent.leader(job) for job in jobs} == leaders
            assert agent.ask("claims") == claims
        with gate.opened(count):
            assert {job: agent.ended(job) for job in jobs} == {job: f"exited {job}" for job in jobs}
        for job in jobs:
            agent.until(f"{job}.1", "none")
            assert (tmp_path / f"out-{job}").read_text() == "once\n"
        assert agent.folders() == NOTHING_LEFT


def test_an_older_release_leaves_what_a_newer_one_has_written(tmp_path: Path) -> None:
    """It refuses to serve, and says why; the newer one goes on where it was, and launches beside what the older has launched."""
    gate, newer = Gate(tmp_path / "gate"), Site(tmp_path / "site")
    newer.install(NEXT_AGENT)
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 3")
        agent.until("1.1", "running")
        agent.stop()
        agent.release = newer
        agent.start()
        assert agent.ended(agent.submit("exit 5")) == "exited 5"
        agent.until("2.1", "none")
        agent.stop()
        agent.release = None
        assert agent.spawn().wait() == 1
        assert f"agent.db': its version is {AGENT_SCHEMA.version + 1}, which is newer" in agent.log.read_text().splitlines()[-1]
        agent.release = newer
        agent.start()
        gate.open()
        assert agent.ended(job) == "exited 3"


def _spoil(runtime: Path) -> dict[str, Path]:
    """Beside the folders of jobs 1 to 100: one that is foreign, one of a later release, one twice. That of job 1 is damaged."""
    (runtime / str(step_of(1)) / "launch.json").write_bytes(b"{")
    beside = {"foreign": runtime / "lost+found", "newer": runtime / str(step_of(201)), "twice": runtime / str(step_of(203))}
    beside["foreign"].mkdir()
    for name, source in (("newer", 2), ("twice", 3)):
        shutil.copytree(runtime / str(step_of(source)), beside[name], ignore=shutil.ignore_patterns("control.sock"))
    descriptor = beside["newer"] / "descriptor.json"
    descriptor.write_bytes(descriptor.read_bytes().replace(b'"v":%d' % PROTOCOL_VERSION, b'"v":%d' % (PROTOCOL_VERSION + 1), 1))
    return beside


def test_of_a_hundred_folders_the_bad_one_stops_nothing(tmp_path: Path) -> None:
    """It is held and named, and keeps its CPU; 99 are taken up. Of what else stands there each is named and left as it is."""
    with Agents(tmp_path / "state", cpus=100).start() as agent:
        gate, jobs = _held_jobs(agent, tmp_path, 100)
        leaders, claims = {job: agent.leader(job) for job in jobs}, agent.ask("claims")
        agent.kill()
        runtime = agent.path / "steps" / "runtime"
        good = (runtime / str(step_of(1)) / "launch.json").read_bytes()
        beside = _spoil(runtime)
        agent.start()
        attempts = agent.ask("attempts")
        held = {name: attempt["held"] for name, attempt in attempts.items() if attempt["state"] == "held"}
        assert [one["state"] for one in attempts.values()].count("running") == 99
        assert list(held) == ["1.1", "201.1", "203.1"]
        assert "launch.json" in held["1.1"]
        assert f"its version is {PROTOCOL_VERSION + 1}, which is newer" in held["201.1"]
        assert "3.1.batch" in held["203.1"]
        assert [name for name in ("201.1", "203.1") if not any(name in drain for drain in agent.ask("drains"))] == []
        assert "lost+found" in agent.facts("left alone")[-1]
        assert {job: agent.leader(job) for job in jobs[1:]} == {job: leaders[job] for job in jobs[1:]}
        assert agent.ask("claims") == claims
        with gate.opened(100):
            assert {job: agent.ended(job) for job in jobs[1:]} == {job: f"exited {job}" for job in jobs[1:]}
            agent.kill()
            for folder in beside.values():
                shutil.rmtree(folder)
            (runtime / str(step_of(1)) / "launch.json").write_bytes(good)
            agent.start()
            assert agent.ended(1) == "exited 1"
            assert agent.ask("drains") == []


def _claim_of_the_first(database: Path, what: str) -> None:
    """Of two attempts, in the store: the second is to have had the same GPUs, or CPUs."""
    with closing(sqlite3.connect(database)) as connection, connection:
        first, second = (
            json.loads(one) for (one,) in connection.execute("SELECT allocation FROM attempts ORDER BY job_id").fetchall()
        )
        claim = json.dumps(second | {what: first[what]}).encode()
        connection.execute("UPDATE attempts SET allocation = ? WHERE job_id = 2", (claim,))


def test_of_two_that_claim_one_gpu_the_later_is_fenced(tmp_path: Path) -> None:
    """All of its tree ends, by its kill plan, and it is reported with the reason; the earlier runs on."""
    tree, gate = NodeTree("nvidia", tmp_path), Gate(tmp_path / "gate")
    tree.write("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1\n")
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        for name in ("1.1", "2.1"):
            agent.submit(f"sleep 1000 & read x <{gate.path}; exit 6", resources=ResourceRequest(gpus=1))
            agent.until(name, "running")
        agent.stop()
        _claim_of_the_first(agent.path / "agent.db", "gpus")
        fenced = agent.steps.descriptor_of(2, 1, step_of(2).step_id)
        assert fenced.leader is not None
        assert fenced.cgroup is not None
        agent.start()
        told = agent.ask("ended 2")
        assert told["end"] == "killed by SIGTERM"
        assert told["cancelled"]
        assert "GPU 0000:41:00.0: 1.1 holds it" in told["fault"]
        assert fenced.leader.liveness() is Liveness.GONE
        assert fenced.cgroup.observe().liveness is Liveness.GONE
        agent.until("2.1", "none")
        assert not (agent.path / "steps" / "runtime" / str(step_of(2))).exists()
        assert agent.ask("claims") == {"1.1": [0]}
        gate.open()
        assert agent.ended(1) == "exited 6"


def test_one_that_is_fenced_holds_all_that_it_uses_until_it_is_gone(tmp_path: Path) -> None:
    """Though its only CPU is another's: its licence is nobody else's while it lives, and why it ends is shown."""
    begun, gate = Gate(tmp_path / "begun"), Gate(tmp_path / "gate")
    with Agents(tmp_path / "state", {"generic": "license=1"}).start() as agent:
        agent.submit("sleep 1000")
        agent.until("1.1", "running")
        deaf = f"trap '' TERM; echo >{begun.path}; read x <{gate.path}"
        agent.submit(deaf, resources=ResourceRequest(generic={"license": 1}), kill_plan=Steps.patient)
        begun.path.read_bytes()
        agent.until("2.1", "running")
        agent.stop()
        _claim_of_the_first(agent.path / "agent.db", "cpus")
        agent.start()
        agent.until("2.1", "ending")
        assert agent.ask("claims") == {"1.1": [0], "2.1": [0]}
        assert agent.ask("node")[1]["generic"] == {}
        assert ["CPU 0: 1.1 holds it" in why for why in agent.ask("held")] == [True]
        gate.open()
        agent.until("2.1", "none")
        assert agent.ask("claims") == {"1.1": [0]}
        assert agent.ask("node")[1]["generic"] == {"license": 1}


def test_a_lower_attempt_beside_a_higher_is_fenced_and_removed(tmp_path: Path) -> None:
    """Its end is nobody's business any more."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.stop()
        agent.steps.launch(["sh", "-c", f"read x <{gate.path}; exit 7"], runtime_id=step_of(1, 2), affinity=[1])
        lower = agent.steps.descriptor_of(1, 1, step_of(1).step_id).cgroup
        assert lower is not None
        agent.start()
        agent.until("1.1", "none")
        assert lower.observe().liveness is Liveness.GONE
        assert list(agent.ask("claims")) == ["1.2"]
        assert not (agent.path / "steps" / "runtime" / str(step_of(1, 1))).exists()
        gate.open()
        assert agent.ended(1) == "exited 7"


def test_a_step_that_was_lost_fails_its_attempt_and_is_no_guess(tmp_path: Path) -> None:
    """Leader, supervisor and witness were killed while no agent was there: UNKNOWN, with the reason, and all is cleaned up."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.kill()
        descriptor = agent.steps.descriptor_of(1, 1, step_of(1).step_id)
        assert descriptor.leader is not None
        agent.steps.kill(descriptor.host, descriptor.supervisor, descriptor.leader)
        agent.start()
        assert agent.ended(job).startswith("unknown: ")
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
        assert agent.ask("claims") == {}


def test_what_a_reboot_has_ended_is_run_again_if_it_asked_for_that(tmp_path: Path) -> None:
    """That is the node's fault. Its keepers are killed here, and its records made those of another boot."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        script = f"test $SPURD_RUN_ATTEMPT = 2 && exit 4; read x <{gate.path}"
        job = agent.submit(script, requeue=RequeuePolicy.ON_NODE_FAULT)
        agent.until("1.1", "running")
        agent.kill()
        keepers = agent.steps.descriptor_of(1, 1, step_of(1).step_id)
        assert keepers.leader is not None
        agent.steps.kill(keepers.host, keepers.supervisor, keepers.leader)
        for path in (agent.path / "steps" / "runtime" / str(step_of(1))).glob("*.json*"):
            path.write_bytes(path.read_bytes().replace(read_boot_id().encode(), ANOTHER_BOOT.encode()))
        agent.start()
        assert agent.ended(job) == "exited 4"
        first, second = agent.ask(f"history {job}")
        assert (first, second) == ("unknown: the machine was restarted before the end was recorded", "exited 4")


def test_a_row_that_cannot_be_read_is_held_and_stops_no_other(tmp_path: Path) -> None:
    """What its step was given stays taken, by what the step folder says."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.stop()
        database = sqlite3.connect(agent.path / "agent.db")
        database.execute("UPDATE attempts SET allocation = x'7b'")
        database.commit()
        database.close()
        agent.start()
        assert "cannot be read" in agent.ask("attempts")["1.1"]["held"]
        assert agent.ask("claims") == {"1.1": [0]}
        assert agent.ended(agent.submit("exit 5")) == "exited 5"
        gate.open()


@pytest.mark.parametrize("cancelled", [False, True])
def test_one_whose_step_can_be_read_again_is_held_no_more(tmp_path: Path, *, cancelled: bool) -> None:
    """It is looked at again and again, by an agent that has found it so; what was wanted of it meanwhile is done then."""
    gate = Gate(tmp_path / "gate")
    with Agents(tmp_path / "state").start() as agent:
        job = agent.submit(f"read x <{gate.path}; exit 6")
        agent.until("1.1", "running")
        agent.kill()
        launch = agent.path / "steps" / "runtime" / str(step_of(1)) / "launch.json"
        good = launch.read_bytes()
        launch.write_bytes(good[:-2])
        agent.start()
        agent.until("1.1", "held")
        if cancelled:
            agent.ask(f"cancel {job}")
            agent.await_fact("fenced")
            assert agent.until("1.1", "held") == "held"
            assert ["its supervisor, process" in why for why in agent.ask("held")] == [True]
        launch.with_name("good").write_bytes(good)
        launch.with_name("good").replace(launch)
        if not cancelled:
            agent.until("1.1", "running")
            gate.open()
        assert agent.ended(job) == ("killed by SIGTERM" if cancelled else "exited 6")
        agent.until("1.1", "none")
        assert agent.folders() == NOTHING_LEFT
