"""A job of which nothing but its tree is left: it is ended by the cgroup that was noted as its own, or stays held and named."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from spurproc import KillPlan, Liveness, ProcessIdentity
from spurproc.client.host_link import PROGRAM_VARIABLE
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.record import CgroupRecord
from tests.agents import NOTHING_LEFT, Agents, step_of
from tests.bystander import Bystander
from tests.steps import Gate, host_without_cgroups

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

_SCRIPT = "trap '' TERM; setsid sleep 1000 & exec sleep 1000"
_PLAN = KillPlan(steps=((15, 0.2), (9, None)))


class Lost:
    """One job on a node of its own, whose supervisor and host are killed while no agent is there."""

    def __init__(self, path: Path) -> None:
        self.agent = Agents(path / "state", {"epilog-argv": f"/bin/sh -c 'echo $SPURD_JOB_END >>{path}/epilogs'"})
        self.folder = self.agent.path / "steps" / "runtime" / str(step_of(1))

    def lose(self) -> None:
        """Its tree lives on, and nobody watches it."""
        self.agent.start().submit(_SCRIPT, kill_plan=_PLAN)
        self.agent.until("1.1", "running")
        self.agent.until_executed(1)
        descriptor = self.agent.steps.descriptor_of(1, 1, step_of(1).step_id)
        assert descriptor.cgroup is not None
        self.cgroup: CgroupRecord = descriptor.cgroup
        self.leader = ProcessIdentity.of(self.agent.leader(1))
        self.agent.kill()
        self.agent.steps.kill(descriptor.host, descriptor.supervisor)

    def end_tree(self) -> None:
        """Whatever is left of it."""
        with Cgroup.open(self.cgroup.path, self.cgroup.inode) as cgroup:
            cgroup.kill()
            cgroup.wait_empty(60)
            cgroup.remove(60)


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[Lost]:
    made = Lost(tmp_path)
    with made.agent:
        made.lose()
        yield made


def _held(lost: Lost, claims: Sequence[str] = ("1.1",)) -> str:
    lost.agent.until("1.1", "held")
    (why,) = lost.agent.ask("held")
    assert list(lost.agent.ask("claims")) == list(claims)
    assert lost.leader.liveness() is Liveness.ALIVE
    return str(why)


def test_without_a_cgroup_nobody_can_tell_that_it_is_gone(tmp_path: Path) -> None:
    """Leader and supervisor are dead, and what the job has started lives on: it is held, over starts too, with its CPU."""
    told, gate = Gate(tmp_path / "told"), Gate(tmp_path / "gate")
    agent = Agents(tmp_path / "state", cpus=1)
    agent.env[PROGRAM_VARIABLE] = str(host_without_cgroups(tmp_path))
    with agent:
        agent.start()
        agent.submit(f"setsid sh -c 'echo >{told.path}; read x <{gate.path}' & exec sleep 1000")
        told.path.read_bytes()
        agent.until("1.1", "running")
        agent.until_executed(1)
        descriptor = agent.steps.descriptor_of(1, 1, step_of(1).step_id)
        assert (descriptor.cgroup, descriptor.leader is None) == (None, False)
        agent.kill()
        agent.steps.kill(descriptor.host, descriptor.supervisor, ProcessIdentity.of(agent.leader(1)))
        shutil.rmtree(agent.path / "steps" / "runtime" / str(step_of(1)))
        for _ in range(2):
            agent.start()
            agent.until("1.1", "held")
            assert ["something of it may live" in why for why in agent.ask("held")] == [True]
            assert agent.ask("claims") == {"1.1": [0]}
            assert agent.stop() == 0, "nothing is known to live that nobody could name"
        gate.open()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cancel_ends_it_by_its_cgroup_and_gives_back_what_it_had(lost: Lost, *, restarted: bool) -> None:
    """Whoever has wanted that; nobody else feels it, and nothing of it is left."""
    shutil.rmtree(lost.folder)
    with closing(Bystander()) as bystander:
        lost.agent.start()
        assert "something of it may live" in _held(lost)
        if restarted:
            lost.agent.kill()
            lost.agent.start(crash="TERMINATE before 1 SIGKILL")
            lost.agent.ask("cancel 1")
            assert lost.agent.wait() == -9
            lost.agent.start()
        else:
            lost.agent.ask("cancel 1")
        told = lost.agent.ask("ended 1")
        assert (told["end"].split(":")[0], told["cancelled"], told["fault"]) == ("unknown", True, None)
        lost.agent.until("1.1", "none")
        assert lost.agent.ask("claims") == {}
        assert "cgroup empty" in lost.agent.await_fact("fenced")
        assert lost.leader.liveness() is Liveness.GONE
        assert lost.cgroup.observe().evidence in ("handle", "absent")
        assert lost.agent.folders() == NOTHING_LEFT
        assert bystander.felt() == []


def _note(lost: Lost, change: Callable[[bytes], bytes]) -> None:
    """What was noted of its launch is another."""
    with closing(sqlite3.connect(lost.agent.path / "agent.db")) as database, database:
        ((noted,),) = database.execute("SELECT launched FROM attempts").fetchall()
        database.execute("UPDATE attempts SET launched = ?", (change(noted),))


def _of_another_cgroup(lost: Lost, noted: bytes) -> bytes:
    """One that lives, and stands elsewhere."""
    return noted.replace(b'"inode":%d' % lost.cgroup.inode, b'"inode":%d' % lost.cgroup.above_inode)


@pytest.mark.parametrize("noted", ["nothing", "another-cgroup", "another-step"])
def test_what_nothing_proves_to_be_its_own_is_left_alone(lost: Lost, noted: str) -> None:
    """It stays held, keeps what it has, and says why it could not be ended."""
    changes: dict[str, tuple[Callable[[bytes], bytes], str]] = {
        "nothing": (lambda _: b"", "nothing is noted that tells its processes from others"),
        "another-cgroup": (lambda text: _of_another_cgroup(lost, text), "another one has taken its place"),
        "another-step": (lambda text: text.replace(b'"job_id":1', b'"job_id":2'), "nothing is noted that tells its processes"),
    }
    change, why = changes[noted]
    _note(lost, change)
    shutil.rmtree(lost.folder)
    lost.agent.start()
    _held(lost)
    lost.agent.ask("cancel 1")
    lost.agent.await_fact("fenced")
    lost.agent.ask("cancel 1")
    assert why in _held(lost)
    lost.end_tree()


@pytest.mark.parametrize("has_row", [True, False])
def test_one_whose_folder_cannot_be_read_gives_back_what_it_had_and_keeps_its_folder(lost: Lost, *, has_row: bool) -> None:
    """Nobody can acknowledge it there: that is said until somebody has removed it. Whose job it was may be known to nobody."""
    launch = lost.folder / "launch.json"
    launch.write_bytes(launch.read_bytes()[:-2])
    for file in () if has_row else lost.agent.path.glob("agent.db*"):
        file.unlink()
    lost.agent.start()
    assert "launch.json" in _held(lost, claims=["1.1"] if has_row else [])
    lost.agent.ask("cancel 1")
    assert lost.agent.ended(1).startswith("unknown: its records cannot be read")
    lost.agent.await_fact("tried again later")
    assert lost.agent.until("1.1", "forgetting") == "forgetting"
    assert (lost.agent.ask("claims"), lost.leader.liveness()) == ({}, Liveness.GONE)
    assert ["launch.json" in problem for problem in lost.agent.ask("problems")] == [True]
    assert ["cannot be told what it is about" in why for why in lost.agent.ask("drains")] == ([] if has_row else [True])
    lost.agent.kill()
    shutil.rmtree(lost.folder)
    lost.agent.start()
    lost.agent.until("1.1", "none")
    assert (lost.agent.folders(), lost.agent.ask("problems")) == (NOTHING_LEFT, [])
