"""A real agent on a node that changes under it: nothing flaps, nothing is given twice, and what runs is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.resources.request import ResourceRequest
from tests.agents import Agents
from tests.fifo import Gate
from tests.node_tree import NodeTree

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

LOWER, FIRST, SECOND = "0000:03:00.0", "0000:41:00.0", "0000:65:00.0"
BUS, TOLD = "/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"
FIRST_UUID, SECOND_UUID = "GPU-6f2c1a58-0d5e-4a0b-9d0a-8d3a2f6f1b11", "GPU-b4a07f8e-33c1-4d7e-a8f5-0c5d1e9b7a22"
LOWER_UUID = "GPU-11111111-0d5e-4a0b-9d0a-8d3a2f6f1b11"
CPUSET, MEMORY = "/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "/sys/fs/cgroup/system.slice/memory.max"
CHANGED, DRAINED, LIFTED = "the inventory has changed", "the node drains", "a drain is lifted"


class Node:
    """A machine with two GPUs, as its agent sees it."""

    def __init__(self, path: Path) -> None:
        self.tree = NodeTree("nvidia", path)
        self.tree.write(CPUSET, "0-1\n")  # those that this machine has, for jobs run on them
        self.agent = Agents(path / "state", {"memory-bytes": str(64 << 30), "generic": "license=2"}, root=self.tree.root)
        self._path = path

    def turn(self, count: int = 1) -> None:
        """It looks at its node so often."""
        for _ in range(count):
            self.agent.ask("inventory")

    @property
    def has(self) -> dict[str, Any]:
        """All that the agent goes by."""
        totals: dict[str, Any] = self.agent.ask("node")[0]
        return totals

    @property
    def gpus(self) -> list[str]:
        """By their addresses."""
        return [gpu["pci_address"] for gpu in self.has["gpus"]]

    def drained(self) -> bool:
        """By itself; nobody else does."""
        return bool(self.agent.ask("drains"))

    def unplug(self, gpu: str) -> None:
        """From the bus, and the driver has seen it."""
        for place in (BUS, TOLD):
            self.tree.at(f"{place}/{gpu}").rename(self._kept(place, gpu))

    def plug(self, gpu: str) -> None:
        """Back."""
        for place in (BUS, TOLD):
            self._kept(place, gpu).rename(self.tree.at(f"{place}/{gpu}"))

    def _kept(self, place: str, gpu: str) -> Path:
        return self.tree.at(f"/{gpu}{place.replace('/', '_')}")

    def add(self, gpu: str, uuid: str) -> None:
        """One that was never there."""
        for name in ("class", "vendor"):
            self.tree.write(f"{BUS}/{gpu}/{name}", self.tree.at(f"{BUS}/{FIRST}/{name}").read_text())
        self.tree.at(f"{BUS}/{gpu}/driver").symlink_to(self.tree.at(f"{BUS}/{FIRST}/driver").readlink())
        told = self.tree.at(f"{TOLD}/{FIRST}/information").read_text()
        self.tree.write(f"{TOLD}/{gpu}/information", told.replace(FIRST, gpu).replace(FIRST_UUID, uuid))

    def holder(self, gate: Gate, **wanted: Any) -> int:
        """A job that has that until its gate is opened, and says which GPUs it sees."""
        name = f"{gate.path.name}.out"
        script = f"echo $CUDA_VISIBLE_DEVICES; read x <{gate.path}"
        return self.agent.submit(script, stdout=str(self._path / name), resources=ResourceRequest(**wanted))

    def seen_by(self, gate: Gate) -> str:
        """Which GPUs its job has seen."""
        return (self._path / f"{gate.path.name}.out").read_text().strip()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    with made.agent.start():
        yield made


def _shift(node: Node, kind: str) -> None:
    """One thing of the node becomes another, and all else stays."""
    match kind:
        case "CPUs":
            node.tree.write(CPUSET, "0\n")
        case "memory":
            node.tree.write(MEMORY, f"{1 << 30}\n")
        case "GPUs":
            node.unplug(SECOND)


def test_nothing_flaps(node: Node) -> None:
    """Readings that fail, memory of 0, odd readings, in turn and however long: what was accepted stands, and nobody is told."""
    before = node.has
    meminfo = node.tree.at("/proc/meminfo").read_text()
    for _ in range(3):
        node.tree.write("/proc/meminfo", "MemTotal: 0 kB\n")
        node.turn(2)
        assert "meminfo" in node.agent.ask("problems")[0]
        node.tree.write("/proc/meminfo", meminfo)
        node.unplug(FIRST)
        node.turn()
        node.tree.spoil("/sys/devices/system/cpu/online")
        node.turn()
        node.tree.remove("/sys/devices/system/cpu/online")
        node.tree.write("/sys/devices/system/cpu/online", "0-19\n")
        node.turn()  # the same as before the failure: that was one odd reading, and this is another
        node.plug(FIRST)
        node.turn()
        assert node.has == before
    assert node.agent.ask("problems") == []
    assert [node.agent.facts(event) for event in (CHANGED, DRAINED, LIFTED)] == [[], [], []]


def test_each_kind_alone_is_a_change(node: Node) -> None:
    """One reading is an odd one, two are a fact, told once: CPUs, memory, GPUs."""
    before = node.has
    for kind, field in (("CPUs", "cpus"), ("memory", "memory_bytes"), ("GPUs", "gpus")):
        _shift(node, kind)
        node.turn()
        assert node.has == before
        node.turn(3)
        after = node.has
        assert {name for name in after if after[name] != before[name]} == {field}
        before = after
    node.agent.kill()
    node.tree.spoil("/sys/devices/system/cpu/online")  # nothing can be read: what counts is what was accepted
    node.agent.start()
    assert (node.has, node.drained()) == (before, False)
    assert len(node.agent.facts(CHANGED)) == 3


def test_each_kind_alone_waits_for_the_job_that_runs(node: Node, gate: Callable[[str], Gate]) -> None:
    """Nothing is started meanwhile; with the end of the last job it is applied, and what waited in the queue runs."""
    for number, kind in enumerate(("CPUs", "memory", "GPUs"), start=1):
        before, holds, later = node.has, gate(f"holds-{kind}"), gate(f"later-{kind}")
        first = node.holder(holds, gpus=1)
        node.agent.until(f"{first}.1", "running")
        _shift(node, kind)
        node.turn(3)
        assert node.has == before
        assert node.drained()
        second = node.holder(later)
        node.turn()
        assert list(node.agent.ask("claims")) == [f"{first}.1"]
        holds.open()
        node.agent.until(f"{second}.1", "running")
        assert node.has != before
        assert not node.drained()
        assert [len(node.agent.facts(event)) for event in (CHANGED, DRAINED, LIFTED)] == [number] * 3
        later.open()
        assert node.agent.ended(second) == "exited 0"
        node.agent.until(f"{second}.1", "none")


def test_generic_resources_alone(node: Node, gate: Callable[[str], Gate]) -> None:
    """They come from the configuration, so from a start to the next: under a job fewer of them wait for its end as well."""
    holds = gate("holds")
    job = node.holder(holds, generic={"license": 2})
    node.agent.until("1.1", "running")
    node.agent.kill()
    node.agent.start(generic="license=1")
    assert node.drained()
    assert node.has["generic"] == {"license": 2}
    assert node.agent.ask("node")[1]["generic"] == {}
    holds.open()
    assert node.agent.ended(job) == "exited 0"
    node.agent.await_fact(LIFTED)
    assert node.has["generic"] == {"license": 1}
    assert node.agent.ask("node")[1]["generic"] == {"license": 1}
    node.agent.kill()
    node.agent.start(generic="license=3,seat=1")
    assert node.has["generic"] == {"license": 3, "seat": 1}


def test_a_gpu_that_vanishes_under_a_job_and_returns_is_its_own_still(node: Node, gate: Callable[[str], Gate]) -> None:
    """Over a restart too: it is not free while it is away, nor when it is back; the drain lifts itself."""
    holds, later = gate("holds"), gate("later")
    job = node.holder(holds, gpus=1)
    node.agent.until("1.1", "running")
    node.unplug(FIRST)
    node.turn(2)
    assert node.drained()
    node.agent.kill()
    node.agent.start()
    node.turn(2)
    second = node.holder(later, gpus=1)
    assert [gpu["pci_address"] for gpu in node.agent.ask("node")[1]["gpus"]] == [SECOND]
    node.plug(FIRST)
    node.turn()
    node.agent.until(f"{second}.1", "running")
    assert not node.drained()
    assert node.agent.ask("node")[1]["gpus"] == []
    assert node.gpus == [FIRST, SECOND]
    holds.open()
    later.open()
    assert [node.agent.ended(one) for one in (job, second)] == ["exited 0"] * 2
    assert [node.seen_by(one) for one in (holds, later)] == [FIRST_UUID, SECOND_UUID]
    assert node.agent.facts(CHANGED) == []


def test_a_lower_address_that_appears_moves_nobody(node: Node, gate: Callable[[str], Gate]) -> None:
    """The first GPU is another one from then on; who has one keeps it, and the next job gets one that is free."""
    holds, later = gate("holds"), gate("later")
    node.holder(holds, gpus=1)
    node.agent.until("1.1", "running")
    node.add(LOWER, LOWER_UUID)
    node.turn(2)
    assert node.drained()
    assert node.gpus == [FIRST, SECOND]
    node.agent.kill()
    node.agent.start()
    assert node.gpus == [FIRST, SECOND]
    holds.open()
    node.agent.await_fact(LIFTED)
    assert node.seen_by(holds) == FIRST_UUID
    assert node.gpus == [LOWER, FIRST, SECOND]
    job = node.holder(later, gpus=2)
    later.open()
    assert node.agent.ended(job) == "exited 0"
    assert node.seen_by(later) == f"{LOWER_UUID},{FIRST_UUID}"


def test_a_change_that_waits_for_a_node_that_cannot_be_read_is_no_haste(node: Node, gate: Callable[[str], Gate]) -> None:
    """The job has ended, and what has changed is not known any more: it is looked at once, and then each interval."""
    holds, meminfo = gate("holds"), node.tree.at("/proc/meminfo").read_text()
    job = node.holder(holds, gpus=1)
    node.agent.until("1.1", "running")
    node.unplug(FIRST)
    node.turn(2)
    node.tree.write("/proc/meminfo", "")
    holds.open()
    assert node.agent.ended(job) == "exited 0"
    node.agent.await_fact("the inventory cannot be read")
    node.turn(3)
    assert len(node.agent.facts("the inventory cannot be read")) == 4
    assert node.drained()
    node.tree.write("/proc/meminfo", meminfo)
    node.turn(2)
    assert (node.drained(), node.gpus) == (False, [SECOND])


def test_a_kernel_that_does_not_answer_holds_up_nothing(node: Node) -> None:
    """As a driver whose GPU has fallen off the bus: no start, no job, and no end of the agent waits for it."""
    node.tree.remove("/proc/meminfo")
    os.mkfifo(node.tree.at("/proc/meminfo"))
    node.agent.kill()
    node.agent.start()
    (problem,) = node.agent.ask("problems")
    assert problem == "the inventory cannot be read: the kernel does not answer: it takes longer than 5 s"
    assert node.gpus == [FIRST, SECOND]
    assert node.agent.ended(node.agent.submit("exit 3")) == "exited 3"
    assert node.agent.stop() == 0


def test_what_is_configured_and_not_there_is_shown(tmp_path: Path) -> None:
    """A name that was mistyped gives jobs less than was meant."""
    tree = NodeTree("nvidia", tmp_path)
    tree.write(CPUSET, "0-1\n")
    settings = {"cpus": f"{min(os.sched_getaffinity(0))},65535", "gpus": f"{FIRST},GPU-mistyped"}
    with Agents(tmp_path / "state", settings, root=tree.root).start() as agent:
        assert [gpu["pci_address"] for gpu in agent.ask("node")[0]["gpus"]] == [FIRST]
        (problem,) = agent.ask("problems")
        assert problem == "configured for jobs, and not there: CPU 65535, GPU GPU-mistyped"
        agent.await_fact("what is configured is not there")


def test_a_configuration_counts_where_the_node_cannot_be_read(node: Node, gate: Callable[[str], Gate]) -> None:
    """What it leaves out is given to nobody from the start on, and under a job that waits for its end, as any change."""
    holds, meminfo = gate("holds"), node.tree.at("/proc/meminfo").read_text()
    node.agent.kill()
    node.tree.spoil("/proc/meminfo")
    node.agent.start(gpus=SECOND, cpus="1", generic="license=1")
    assert (node.gpus, node.has["cpus"], node.has["generic"]) == ([SECOND], [1], {"license": 1})
    assert not node.drained()
    job = node.holder(holds, gpus=1)
    node.agent.until("1.1", "running")
    node.agent.kill()
    node.agent.start(gpus=FIRST)
    assert (node.gpus, node.drained()) == ([SECOND], True)
    (problem,) = node.agent.ask("problems")
    assert "meminfo" in problem
    holds.open()
    assert (node.agent.ended(job), node.seen_by(holds)) == ("exited 0", SECOND_UUID)
    node.tree.remove("/proc/meminfo")
    node.tree.write("/proc/meminfo", meminfo)
    node.turn(2)
    assert (node.gpus, node.drained()) == ([FIRST], False)


def test_a_gpu_that_nothing_can_name_to_a_job_is_given_to_none(tmp_path: Path) -> None:
    """An AMD GPU without a unique id: its job would see none, or another. It is shown, and no job waits for it for ever."""
    tree = NodeTree("amd", tmp_path)
    with Agents(tmp_path / "state", root=tree.root).start() as agent:
        assert [gpu["uuid"] for gpu in agent.ask("node")[0]["gpus"]] == ["GPU-6c62a3758b84fd47"]
        (problem,) = agent.ask("problems")
        assert problem == "no job gets the GPU 0001:03:00.0: it has no UUID for ROCR_VISIBLE_DEVICES"
        job = agent.submit(
            "echo $SPURD_GPUS $ROCR_VISIBLE_DEVICES.$CUDA_VISIBLE_DEVICES.",
            stdout=str(tmp_path / "out"),
            resources=ResourceRequest(gpus=1),
        )
        assert agent.ended(job) == "exited 0"
        assert (tmp_path / "out").read_text() == "0000:c5:00.0 GPU-6c62a3758b84fd47..\n"
        assert len(agent.facts("a GPU is given to no job")) == 1
        with pytest.raises(AssertionError, match="GPUs: 2 wanted, 1 of 1 free"):
            agent.submit("exit 0", resources=ResourceRequest(gpus=2))


def test_the_agent_looks_by_itself_each_interval(node: Node) -> None:
    """Beside everything else that it does."""
    node.agent.kill()
    node.agent.start(inventory_interval_s="0.1")
    node.unplug(SECOND)
    node.agent.await_fact(CHANGED)
    assert node.gpus == [FIRST]
