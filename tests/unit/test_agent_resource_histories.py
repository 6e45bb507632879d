"""Random histories of the table of resources, restarts among them, beside a model that knows nothing but who has what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.refusal import Conflict, Insufficient, NotHeld
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.resources.table import ResourceTable
from spurproc.proto.attempt_id import AttemptId

# Few of each, so that they meet. A GPU may be exchanged at its address, or come back at another.
GPUS = st.builds(
    lambda bus, uuid, kind: Gpu(kind=kind, pci_address=f"0000:0{bus}:00.0", uuid=uuid and f"GPU-{uuid}"),
    st.integers(0, 3),
    st.sampled_from([None, "0000", "1111", "2222"]),
    st.sampled_from(["amd", "nvidia"]),
)
GENERIC = st.dictionaries(st.sampled_from(["license", "port"]), st.integers(1, 3), max_size=2)


def apart(gpus: list[Gpu]) -> tuple[Gpu, ...]:
    """Those that share no name with one before."""
    names: set[str] = set()
    kept = []
    for gpu in gpus:
        if names.isdisjoint(gpu.names):
            kept.append(gpu)
            names.update(gpu.names)
    return tuple(sorted(kept, key=str))


def ascending(cpus: set[int]) -> tuple[int, ...]:
    return tuple(sorted(cpus))


def bus_of(gpu: Gpu) -> int:
    return int((gpu.pci_address or "0000:0")[6])


THINGS: dict[str, Any] = {
    "memory_bytes": st.integers(0, 6),
    "gpus": st.lists(GPUS, max_size=3).map(apart),
    "generic": GENERIC,
}
INVENTORIES = st.builds(Inventory, cpus=st.sets(st.integers(0, 5)).map(ascending), **THINGS)
RICH = Inventory(
    cpus=(0, 1, 2, 3, 4, 5),
    memory_bytes=6,
    gpus=tuple(
        Gpu(kind=kind, pci_address=f"0000:0{bus}:00.0", uuid=f"GPU-{str(bus) * 4}")
        for bus, kind in enumerate(["amd", "amd", "nvidia"])
    ),
    generic={"license": 3, "port": 3},
)
NODES = st.just(RICH) | INVENTORIES
ALLOCATIONS = st.builds(
    Allocation,
    cpus=st.sets(st.integers(0, 6), min_size=1, max_size=3).map(ascending),
    **(THINGS | {"memory_bytes": st.integers(0, 3)}),
)
REQUESTS = st.builds(
    ResourceRequest,
    cpus=st.integers(1, 2),
    memory_bytes=st.integers(0, 2),
    gpus=st.integers(0, 1),
    generic=st.sampled_from([{}, {"license": 1}, {"port": 2}]),
) | st.builds(ResourceRequest, gpus=st.integers(1, 2), gpu_kind=st.sampled_from([None, "amd", "nvidia"]))


@dataclass
class Naive:
    """Looks everything up anew, each time, in the list of claims."""

    node: Inventory
    claims: dict[AttemptId, tuple[Allocation, bool]] = field(default_factory=dict)
    beside: set[AttemptId] = field(default_factory=set)
    """Those that may share what they have with others."""

    def has_cpu(self, cpu: int) -> bool:
        """Whether anybody has it."""
        return any(cpu in allocation.cpus for allocation, _ in self.claims.values())

    def has_gpu(self, gpu: Gpu) -> bool:
        """Whether anybody has what may be this one."""
        held = [one for allocation, _ in self.claims.values() for one in allocation.gpus]
        return any(one.pci_address == gpu.pci_address or (one.uuid and one.uuid == gpu.uuid) for one in held)

    def left_of_memory(self) -> int:
        """Bytes that nobody has."""
        return max(0, self.node.memory_bytes - sum(allocation.memory_bytes for allocation, _ in self.claims.values()))

    def left_of(self, name: str) -> int:
        """How many of it nobody has."""
        return max(
            0, self.node.generic.get(name, 0) - sum(allocation.generic.get(name, 0) for allocation, _ in self.claims.values())
        )

    def free_cpus(self) -> list[int]:
        """Those that are there and that nobody has."""
        return [cpu for cpu in self.node.cpus if not self.has_cpu(cpu)]

    def free_gpus(self) -> list[Gpu]:
        """As `free_cpus`."""
        return [gpu for gpu in self.node.gpus if not self.has_gpu(gpu)]

    def sums_fit(self, memory_bytes: int, generic: Any) -> bool:
        """Whether so much is left of what is only counted."""
        return memory_bytes <= self.left_of_memory() and all(count <= self.left_of(name) for name, count in generic.items())

    def can_allocate(self, request: ResourceRequest) -> bool:
        """Whether there is enough, of whatever."""
        gpus = [gpu for gpu in self.free_gpus() if request.gpu_kind in (None, gpu.kind)]
        enough = request.cpus <= len(self.free_cpus()) and request.gpus <= len(gpus)
        return enough and self.sums_fit(request.memory_bytes, request.generic)

    def can_restore(self, wanted: Allocation) -> bool:
        """Whether exactly this is free."""
        pairs = [(gpu.pci_address, gpu.uuid) for gpu in self.free_gpus()]
        there = set(wanted.cpus) <= set(self.free_cpus()) and all((gpu.pci_address, gpu.uuid) in pairs for gpu in wanted.gpus)
        return there and self.sums_fit(wanted.memory_bytes, wanted.generic)


class Histories(RuleBasedStateMachine):
    """Each rule asks both and compares; the invariants compare all that can be seen."""

    @initialize(node=NODES)
    def start(self, node: Inventory) -> None:
        """A node that nobody uses."""
        self.table = ResourceTable(node)
        self.naive = Naive(node)
        self.attempts = 0

    @rule(request=REQUESTS, bare=st.booleans())
    def allocate(self, request: ResourceRequest, bare: bool) -> None:
        """To another attempt. It is given if, and only if, it fits."""
        self.attempts += 1
        key, fits = AttemptId(1, self.attempts), self.naive.can_allocate(request)
        assert self.table.fits(request) is fits
        if not fits:
            with pytest.raises(Insufficient):
                self.table.allocate(key, request, bare=bare)
            return
        got = self.table.allocate(key, request, bare=bare)
        self.check_given(request, got)
        self.naive.claims[key] = (got, bare)

    @precondition(lambda self: self.naive.claims)
    @rule(which=st.integers(0, 5), request=REQUESTS)
    def ask_twice(self, which: int, request: ResourceRequest) -> None:
        """Who holds something gets nothing else, whether it would fit or not."""
        key = self.held(which)
        with pytest.raises(Conflict):
            self.table.allocate(key, request)
        with pytest.raises(Conflict):
            self.table.restore(key, self.naive.claims[key][0])

    def held(self, which: int) -> AttemptId:
        """One of those that hold something."""
        return list(self.naive.claims)[which % len(self.naive.claims)]

    def check_given(self, request: ResourceRequest, got: Allocation) -> None:
        """As much as was asked for, of what was free."""
        assert len(got.cpus) == request.cpus
        assert len(got.gpus) == request.gpus
        assert all(request.takes(gpu) for gpu in got.gpus)
        assert (got.memory_bytes, got.generic) == (request.memory_bytes, request.generic)
        assert self.naive.can_restore(got)

    @rule(wanted=ALLOCATIONS)
    def restore(self, wanted: Allocation) -> None:
        """It is taken if, and only if, all of it is free."""
        self.attempts += 1
        key = AttemptId(1, self.attempts)
        if self.naive.can_restore(wanted):
            self.table.restore(key, wanted)
            self.naive.claims[key] = (wanted, False)
            return
        with pytest.raises(Conflict) as caught:
            self.table.restore(key, wanted)
        assert caught.value.clashes
        assert set(caught.value.claimants) <= set(self.naive.claims)

    @rule(wanted=ALLOCATIONS)
    def restore_beside(self, wanted: Allocation) -> None:
        """All of it is taken, whoever has it. Its CPUs and GPUs are what others may have."""
        self.attempts += 1
        key = AttemptId(1, self.attempts)
        shared = any(map(self.naive.has_cpu, wanted.cpus)) or any(map(self.naive.has_gpu, wanted.gpus))
        assert self.table.restore_beside(key, wanted) is shared
        self.naive.claims[key] = (wanted, False)
        self.naive.beside.add(key)

    @precondition(lambda self: self.naive.claims)
    @rule(which=st.integers(0, 5))
    def release(self, which: int) -> None:
        """All that an attempt has, once."""
        key = self.held(which)
        assert self.table.release(key) == self.naive.claims.pop(key)[0]
        with pytest.raises(NotHeld):
            self.table.release(key)

    @rule(node=NODES)
    def change_inventory(self, node: Inventory) -> None:
        """Anything may come and go, under whoever has it."""
        self.apply(node)

    @rule(cpus=st.sets(st.integers(0, 5)), buses=st.sets(st.integers(0, 3)), share=st.integers(0, 2))
    def lose(self, cpus: set[int], buses: set[int], share: int) -> None:
        """A part of what there is."""
        node = self.naive.node
        self.apply(
            Inventory(
                cpus=tuple(cpu for cpu in node.cpus if cpu not in cpus),
                memory_bytes=node.memory_bytes * share // 2,
                gpus=tuple(gpu for gpu in node.gpus if bus_of(gpu) not in buses),
                generic={name: count * share // 2 for name, count in node.generic.items() if count * share // 2},
            )
        )

    @precondition(lambda self: self.naive.node.gpus)
    @rule(which=st.integers(0, 3), other=GPUS)
    def move(self, which: int, other: Gpu) -> None:
        """One keeps its UUID and gets the address of another, or keeps its address and gets another UUID."""
        node = self.naive.node
        gpu = node.gpus[which % len(node.gpus)]
        for moved in (replace(gpu, pci_address=other.pci_address), replace(gpu, uuid=other.uuid)):
            self.apply(replace(node, gpus=apart([moved, *(one for one in node.gpus if one is not gpu)])))

    def apply(self, node: Inventory) -> None:
        """To both."""
        self.table.apply_inventory(node)
        self.naive.node = node

    @rule()
    def restart(self) -> None:
        """Rebuilt from what is recorded, without the bare reservations."""
        for key in [key for key, (_, bare) in self.naive.claims.items() if bare]:
            self.table.release(key)
            del self.naive.claims[key]
        self.table = rebuilt(self.table)

    @invariant()
    def rebuilt_it_would_be_the_same(self) -> None:
        """Whatever vanished, was exchanged, or came back."""
        assert seen(rebuilt(self.table)) == seen(self.table)

    @invariant()
    def both_say_the_same(self) -> None:
        """Who has what, and what is free."""
        claims = {key: (claim.allocation, claim.bare) for key, claim in self.table.claims.items()}
        assert claims == self.naive.claims
        assert list(self.table.free.cpus) == self.naive.free_cpus()
        assert list(self.table.free.gpus) == self.naive.free_gpus()
        assert self.table.free.memory_bytes == self.naive.left_of_memory()
        for name in ("license", "port"):
            assert self.table.free.generic.get(name, 0) == self.naive.left_of(name)

    @invariant()
    def nothing_has_two_holders(self) -> None:
        """Nor a GPU under two names; but for those that run beside others."""
        held = [allocation for key, (allocation, _) in self.naive.claims.items() if key not in self.naive.beside]
        cpus = [cpu for allocation in held for cpu in allocation.cpus]
        names = [name for allocation in held for gpu in allocation.gpus for name in gpu.names]
        assert len(set(cpus)) == len(cpus)
        assert len(set(names)) == len(names)

    @invariant()
    def what_is_missing_is_held_and_not_there(self) -> None:
        """And all of it."""
        missing, node = self.table.missing, self.naive.node
        held = [allocation for allocation, _ in self.naive.claims.values()]
        assert set(missing.cpus) == {cpu for allocation in held for cpu in allocation.cpus} - set(node.cpus)
        there = [gpu.names for gpu in node.gpus]
        gone = {gpu for allocation in held for gpu in allocation.gpus if gpu.names not in there}
        assert set(missing.gpus) <= gone
        assert all(any(set(gpu.names) & set(one.names) for one in missing.gpus) for gpu in gone)
        assert missing.memory_bytes == max(0, sum(allocation.memory_bytes for allocation in held) - node.memory_bytes)


def rebuilt(table: ResourceTable) -> ResourceTable:
    """Another one, from what a database has of this one."""
    another = ResourceTable(table.known)
    for key, claim in table.claims.items():
        allocation = Allocation.from_json(claim.allocation.to_json(), "a row")
        try:
            another.restore(key, allocation)
        except Conflict:
            another.restore_beside(key, allocation)
    another.apply_inventory(table.inventory)
    return another


def seen(table: ResourceTable) -> tuple[Any, ...]:
    """All that can be asked for, but which claims are bare."""
    allocations = {key: claim.allocation for key, claim in table.claims.items()}
    return allocations, table.inventory, table.free, table.missing, table.known


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=40)
