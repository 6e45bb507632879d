"""Nodes that cannot start anything just now: nothing has run, so nothing ends for that, and nothing new is taken on."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.agents import Agents
from tests.descriptors import descriptors_left_of
from tests.fifo import Gate, Told

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.needs_cgroup_v2,
    pytest.mark.own_pid_namespace(mount=True),
]
_STEP = 0xFFFFFFFE
_NEVER_RAN = {"end": "not started: ended before exec at stage NONE", "cancelled": True, "fault": None}


class Disk:
    """A small one. Taken whole, no file can be made there; what is there can be written to."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=400,mode=0755", "none", str(path)], check=True)
        self.path = path
        self._filling = path / "filling"

    @contextmanager
    def full(self) -> Iterator[None]:
        """To the last file."""
        self._filling.mkdir()
        try:
            self._fill()
            yield
        finally:
            shutil.rmtree(self._filling)

    def _fill(self) -> None:
        with suppress(OSError):
            for number in itertools.count():
                (self._filling / str(number)).touch()
        facts = os.statvfs(self.path)
        assert facts.f_ffree == 0, facts


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """For the state folder."""
    made = Disk(tmp_path / "disk")
    yield made
    subprocess.run(["umount", "--lazy", str(made.path)], check=True)


def _lacking(agent: Agents) -> None:
    """Until it has found that."""
    agent.await_fact("tried again later")
    assert [why for why in agent.ask("drains") if why.startswith("nothing can be launched: ")] == agent.ask("drains") != []


def _ran(path: Path) -> list[str]:
    return sorted(path.read_text().split())


def test_a_full_disk_ends_no_job(tmp_path: Path, disk: Disk) -> None:
    """Those that were dispatched wait, those behind them stay in the queue; one that is cancelled ends, each other runs once."""
    with Agents(disk.path / "state", cpus=2).start() as agent:
        agent.ask("drain")
        jobs = [agent.submit(f"echo {number} >>{tmp_path}/ran", stdout="/dev/null") for number in (1, 2, 3, 4)]
        with disk.full():
            agent.ask("undrain")
            _lacking(agent)
            assert agent.ask("attempts")["1.1"]["state"] == "launching"
            assert agent.ask("job 4")[0] == "queued"
            agent.ask("cancel 1")
            assert agent.ask("ended 1") == _NEVER_RAN
            assert "1.1" not in agent.ask("claims")
        assert [agent.ended(job) for job in jobs[1:]] == ["exited 0"] * 3
        assert agent.ask("drains") == []
        assert [len(agent.ask(f"history {job}")) for job in jobs] == [1] * 4
        assert _ran(tmp_path / "ran") == ["2", "3", "4"]


def test_a_host_that_lacks_descriptors_ends_no_job(tmp_path: Path, gate: Callable[[str], Gate]) -> None:
    """It can launch again once it has some."""
    with Agents(tmp_path / "state", cpus=2).start() as agent:
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        go = gate("go")
        agent.submit(f"read x <{go.path}; exit 5")
        agent.until("2.1", "running")
        with descriptors_left_of(agent.steps.descriptor_of(2, 1, _STEP).host.pid, 1):
            agent.submit("exit 4")
            _lacking(agent)
            assert agent.ask("attempts")["3.1"]["state"] == "launching"
        assert agent.ended(3) == "exited 4"
        assert agent.ask("drains") == []
        go.open()
        assert agent.ended(2) == "exited 5"


def test_a_prolog_that_cannot_be_started_is_started_later(tmp_path: Path, disk: Disk) -> None:
    """It fails no launch. A job that is cancelled meanwhile ends without a prolog, and owes no epilog."""
    hooks = {f"{name}-argv": f"/bin/sh -c 'echo {name}-$SPURD_JOB_ID >>{tmp_path}/ran'" for name in ("prolog", "epilog")}
    with Agents(disk.path / "state", hooks, cpus=1).start() as agent:
        agent.ask("drain")
        jobs = [agent.submit("exit 3", stdout="/dev/null") for _ in range(2)]
        with disk.full():
            agent.ask("undrain")
            _lacking(agent)
            agent.until("1.1", "prolog")
            agent.ask("cancel 1")
            assert agent.ask("ended 1") == _NEVER_RAN
        assert agent.ended(jobs[1]) == "exited 3"
        agent.until("2.1", "none")
        assert agent.ask("drains") == []
        assert _ran(tmp_path / "ran") == ["epilog-2", "prolog-2"]


def test_an_epilog_that_cannot_be_started_is_started_later(
    tmp_path: Path, disk: Disk, gate: Callable[[str], Gate], told: Callable[[str], Told]
) -> None:
    """It is owed until it has run, and no failure of it drains the node."""
    go, begun = gate("go"), told("begun")
    hooks = {"epilog-argv": f"/bin/sh -c 'echo $SPURD_JOB_ID >>{tmp_path}/ran'"}
    with Agents(disk.path / "state", hooks).start() as agent:
        agent.submit(f"echo >{begun.path}; read x <{go.path}; exit 3", stdout="/dev/null")
        begun.line()
        with disk.full():
            go.open()
            assert agent.ended(1) == "exited 3"
            _lacking(agent)
            assert agent.ask("attempts")["1.1"]["state"] == "epilog"
            assert "1.1" in agent.ask("claims")
        agent.until("1.1", "none")
        assert agent.ask("drains") == []
        assert _ran(tmp_path / "ran") == ["1"]
