"""What readings lead to, on whole trees of files: nothing acts on one reading, nothing flaps, nothing is given away twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.agent.inventory.difference import differences
from spurproc.agent.inventory.outcome import ConfirmedBusy, ConfirmedIdle, Outcome, Pending, Unchanged, classify
from spurproc.agent.inventory.policy import ANSWERS, Action, SystemDrain, answer
from spurproc.agent.inventory.reading import Failed, Inventory, Reading
from spurproc.agent.inventory.scan import GpuSource, Sources, scan
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.resources.table import ResourceTable
from spurproc.proto.attempt_id import AttemptId
from tests.node_tree import NodeTree

JOB, OTHER = AttemptId(1, 1), AttemptId(2, 1)
A100, L4 = "0000:41:00.0", "0000:65:00.0"
READINGS = st.sampled_from([Inventory(cpus=(0,)), Inventory(cpus=(1,)), Failed("unreadable")])


class Node:
    """An agent as far as it concerns its inventory: two variables, the policy, and the table."""

    def __init__(self, tree: NodeTree) -> None:
        self.tree = tree
        self.sources = Sources(affinity=frozenset(range(64)), generic={"license": 2}, root=tree.root)
        self.accepted = Inventory()
        self.table = ResourceTable(self.accepted)
        self.last: Reading = Failed("nothing was read yet")
        self._drained = False
        self.registrations = 0
        self.tick()
        self.tick()

    def tick(self) -> Action:
        """One reading, and what the policy says about it."""
        return self.take(scan(self.sources))

    def job_ended(self, key: AttemptId) -> Action:
        """It is asked again at once."""
        self.table.release(key)
        return self.take(self.last)

    def take(self, reading: Reading) -> Action:
        """What an agent would do."""
        outcome = classify(self.accepted, self.last, reading, jobs_run=self.table.jobs_hold)
        self.last = reading
        said = answer(outcome)
        if said.system_drain is not SystemDrain.LEAVE:
            self._drained = said.system_drain is SystemDrain.SET
        if isinstance(outcome, ConfirmedIdle):
            assert said.action is Action.APPLY
            self.apply(outcome.inventory)
        return said.action

    def apply(self, inventory: Inventory) -> None:
        """And register again."""
        self.accepted = inventory
        self.table.apply_inventory(inventory)
        self.registrations += 1

    def drained(self) -> bool:
        """By the system."""
        return self._drained

    def free_gpus(self) -> list[str]:
        """By their addresses."""
        return [str(gpu) for gpu in self.table.free.gpus]

    def unplug(self, address: str) -> None:
        """From the bus, and the driver has seen it."""
        self.tree.at(f"/sys/bus/pci/devices/{address}").rename(self.tree.at(f"/unplugged-{address}"))
        self.tree.at(f"/proc/driver/nvidia/gpus/{address}").rename(self.tree.at(f"/untold-{address}"))

    def plug(self, address: str) -> None:
        """Back."""
        self.tree.at(f"/unplugged-{address}").rename(self.tree.at(f"/sys/bus/pci/devices/{address}"))
        self.tree.at(f"/untold-{address}").rename(self.tree.at(f"/proc/driver/nvidia/gpus/{address}"))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(NodeTree("nvidia", tmp_path))


def test_one_reading_has_all_of_it(node: Node) -> None:
    assert (node.accepted.cpus, node.accepted.memory_bytes, node.accepted.generic) == ((1, 2), 32 << 30, {"license": 2})
    assert node.free_gpus() == [A100, L4]
    assert node.registrations == 1
    assert node.tick() is Action.NOTHING


def test_every_failure_is_told_at_once(node: Node) -> None:
    """One reading is whole or Failed, never smaller."""
    node.tree.remove("/proc/meminfo")
    node.tree.remove("/sys/devices/system/cpu/online")
    node.tree.remove(f"/proc/driver/nvidia/gpus/{A100}")
    node.sources = replace(node.sources, generic={"license": -1})
    reading = scan(node.sources)
    assert isinstance(reading, Failed)
    assert [part.split(":")[0] for part in reading.reason.split("; ")] == ["CPUs", "memory", "NVIDIA GPUs", "generic resources"]


def test_drivers_are_believed_and_specs_only_add(tmp_path: Path) -> None:
    """A spec that names a GPU of a driver once more, or one that it has not got any more, changes nothing."""
    node = Node(NodeTree("nvidia", tmp_path))
    node.tree.write("/dev/nvidia0", "")
    node.tree.write(
        "/etc/cdi/n.json", '{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{}}]}'
    )
    other = '{"cdiVersion":"0.6.0","kind":"other.com/gpu","devices":[{"name":"%s","containerEdits":{}}]}'
    node.tree.write("/etc/cdi/o.json", other % A100)
    assert node.tick() is Action.NOTHING
    node.tree.write("/etc/cdi/o.json", other % "0000:99:00.0")
    assert [node.tick(), node.tick()] == [Action.WAIT, Action.APPLY]
    assert node.free_gpus() == [A100, L4, "0000:99:00.0"]


def test_only_the_sources_that_are_chosen_are_read(node: Node) -> None:
    node.tree.remove(f"/proc/driver/nvidia/gpus/{A100}")
    reading = scan(replace(node.sources, gpu_sources=frozenset({GpuSource.CDI})))
    assert isinstance(reading, Inventory)
    assert reading.gpus == ()


@pytest.mark.parametrize(
    "path", ["/proc/meminfo", "/sys/devices/system/cpu/online", f"/proc/driver/nvidia/gpus/{A100}/information"]
)
def test_read_error_changes_nothing_however_long(path: str, node: Node) -> None:
    """The last good inventory stands: what cannot be read has not vanished."""
    node.tree.spoil(path)
    assert [node.tick() for _ in range(5)] == [Action.SKIP] * 5
    assert node.free_gpus() == [A100, L4]
    assert node.registrations == 1


def test_memory_of_0_changes_nothing(node: Node) -> None:
    node.tree.write("/proc/meminfo", "MemTotal: 0 kB\n")
    assert [node.tick(), node.tick()] == [Action.SKIP, Action.SKIP]
    assert node.table.free.memory_bytes == 32 << 30


@pytest.mark.parametrize("busy", [True, False])
def test_one_odd_reading_changes_nothing(busy: bool, node: Node) -> None:
    if busy:
        node.table.allocate(JOB, ResourceRequest())
    for _ in range(3):
        node.unplug(A100)
        assert node.tick() is Action.WAIT
        assert not node.drained()
        node.plug(A100)
        assert node.tick() is Action.NOTHING
    assert not node.drained()
    assert node.registrations == 1


def test_two_readings_with_a_failure_between_them_confirm_nothing(node: Node) -> None:
    node.unplug(A100)
    meminfo = node.tree.at("/proc/meminfo").read_text()
    actions = []
    for text in (meminfo, "", meminfo, meminfo):
        node.tree.write("/proc/meminfo", text)
        actions.append(node.tick())
    assert actions == [Action.WAIT, Action.SKIP, Action.WAIT, Action.APPLY]


def test_gpu_that_vanishes_idle_and_returns(node: Node) -> None:
    node.unplug(A100)
    assert [node.tick(), node.tick(), node.tick()] == [Action.WAIT, Action.APPLY, Action.NOTHING]
    assert node.free_gpus() == [L4]
    assert not node.table.ever_fits(ResourceRequest(gpus=2))
    node.plug(A100)
    assert [node.tick(), node.tick(), node.tick()] == [Action.WAIT, Action.APPLY, Action.NOTHING]
    assert node.free_gpus() == [A100, L4]
    assert node.registrations == 3


def test_gpu_that_vanishes_under_a_job_waits_until_it_ends(node: Node) -> None:
    """IN-04: the job keeps what it has, and the change is applied when it has ended; the drain lifts itself."""
    held = node.table.allocate(JOB, ResourceRequest(gpus=1))
    node.unplug(A100)
    assert [node.tick(), node.tick(), node.tick()] == [Action.WAIT, Action.DRAIN, Action.DRAIN]
    assert node.drained()
    assert node.table.claims[JOB].allocation == held
    assert node.free_gpus() == [L4]
    assert node.job_ended(JOB) is Action.APPLY
    assert not node.drained()
    assert node.free_gpus() == [L4]


def test_gpu_that_returns_to_its_job_lifts_the_drain(node: Node) -> None:
    node.table.allocate(JOB, ResourceRequest(gpus=1))
    node.unplug(A100)
    node.tick()
    node.tick()
    node.plug(A100)
    assert node.tick() is Action.NOTHING
    assert not node.drained()
    assert node.free_gpus() == [L4]
    assert node.registrations == 1


def test_read_error_leaves_a_drain_as_it_is(node: Node) -> None:
    node.table.allocate(JOB, ResourceRequest(gpus=1))
    node.unplug(A100)
    node.tick()
    node.tick()
    node.tree.spoil("/proc/meminfo")
    assert node.tick() is Action.SKIP
    assert node.drained()


def test_bare_reservation_is_no_job_and_its_gpu_is_missing(node: Node) -> None:
    node.table.allocate(JOB, ResourceRequest(gpus=1), bare=True)
    node.unplug(A100)
    assert [node.tick(), node.tick()] == [Action.WAIT, Action.APPLY]
    assert node.table.missing_of(JOB) == (f"GPU {A100}",)
    assert node.free_gpus() == [L4]
    node.plug(A100)
    assert [node.tick(), node.tick()] == [Action.WAIT, Action.APPLY]
    assert node.free_gpus() == [L4]


@pytest.mark.parametrize("busy", [True, False])
def test_lower_address_that_appears_moves_nobody(busy: bool, node: Node) -> None:
    """IN-02: the first GPU is another one from now on."""
    node.unplug(A100)
    node.tick()
    node.tick()
    if busy:
        node.table.allocate(JOB, ResourceRequest(gpus=1))
    node.plug(A100)
    assert [node.tick(), node.tick()] == [Action.WAIT, Action.DRAIN if busy else Action.APPLY]
    if busy:
        assert [str(gpu) for gpu in node.table.claims[JOB].allocation.gpus] == [L4]
        assert node.free_gpus() == []
        assert node.job_ended(JOB) is Action.APPLY
    assert node.free_gpus() == [A100, L4]


@pytest.mark.parametrize("busy", [True, False])
@pytest.mark.parametrize(
    ("path", "text", "generic", "told"),
    [
        ("/sys/devices/system/cpu/online", "0-1\n", {"license": 2}, ("CPUs 2 vanished",)),
        ("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n", {"license": 2}, ("memory 34359738368 -> 1073741824 bytes",)),
        ("/etc/unread", "", {"license": 1, "seat": 4}, ("license 2 -> 1", "seat 0 -> 4")),
    ],
)
def test_cpus_memory_or_generic_resources_alone(
    busy: bool, path: str, text: str, generic: Mapping[str, int], told: tuple[str, ...], node: Node
) -> None:
    """Each is a change like any other; under a job it waits."""
    before = node.accepted
    if busy:
        node.table.allocate(JOB, ResourceRequest(cpus=2))
    node.tree.write(path, text)
    node.sources = replace(node.sources, generic=generic)
    assert [node.tick(), node.tick()] == [Action.WAIT, Action.DRAIN if busy else Action.APPLY]
    if busy:
        assert node.accepted == before
        assert node.job_ended(JOB) is Action.APPLY
    assert differences(before, node.accepted) == told
    assert node.table.free == node.accepted


def test_gpus_alone_are_told_apart_by_all_their_names(node: Node) -> None:
    """Exchanged at its address: one has vanished and another has appeared."""
    before = node.accepted
    node.tree.replace(f"/proc/driver/nvidia/gpus/{A100}/information", "GPU-6f2c1a58", "GPU-00000000")
    assert [node.tick(), node.tick()] == [Action.WAIT, Action.APPLY]
    assert differences(before, node.accepted) == (
        f"GPU {A100} GPU-6f2c1a58-0d5e-4a0b-9d0a-8d3a2f6f1b11 vanished",
        f"GPU {A100} GPU-00000000-0d5e-4a0b-9d0a-8d3a2f6f1b11 appeared",
    )


def test_every_outcome_has_its_answer() -> None:
    """The policy is total."""
    assert set(ANSWERS) == set(get_args(Outcome))


@given(accepted=st.none() | READINGS, last=st.none() | READINGS, reading=READINGS, jobs_run=st.booleans())
def test_nothing_acts_on_one_reading(accepted: Reading | None, last: Reading | None, reading: Reading, jobs_run: bool) -> None:
    """Only two equal ones in a row are confirmed, only what differs from what was accepted, and never a failure."""
    if isinstance(accepted, Failed):
        accepted = None
    outcome = classify(accepted, last, reading, jobs_run=jobs_run)
    confirmed = isinstance(reading, Inventory) and reading == last and reading != accepted
    assert isinstance(outcome, ConfirmedBusy | ConfirmedIdle) is confirmed
    assert isinstance(outcome, ConfirmedBusy) is (confirmed and jobs_run)
    assert isinstance(outcome, Unchanged) is (reading == accepted)
    assert isinstance(outcome, Failed) is isinstance(reading, Failed)
    assert isinstance(outcome, Pending) is (isinstance(reading, Inventory) and reading not in (accepted, last))
