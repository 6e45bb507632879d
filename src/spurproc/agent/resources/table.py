"""The resources of a node and who holds them. Nothing is given twice: each claim is checked whole before any of it is taken.

Pure and in memory. It is rebuilt at a start from what is recorded: `ResourceTable(known)`, where `known` is the inventory under
which the recorded claims were made; `restore` for each of them; and then `apply_inventory` of what the node has by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.fit import choose, shortages_of
from spurproc.agent.resources.holdings import Holdings
from spurproc.agent.resources.refusal import Clash, Conflict, Insufficient, NotHeld, Shortage
from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Claim", "ResourceTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one attempt holds. `bare`: a reservation that nothing runs in; a restart forgets it."""

    allocation: Allocation
    bare: bool = False


class ResourceTable:
    """Claims by attempt, over an inventory that may change under them. For one thread."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._claims: dict[AttemptId, Claim] = {}
        self._held = Holdings()
        self._withheld: set[str] = set()

    @property
    def inventory(self) -> Inventory:
        """All that the node has, held or free."""
        return self._inventory

    @property
    def claims(self) -> Mapping[AttemptId, Claim]:
        """Who holds what, in the order in which it was claimed; a view."""
        return MappingProxyType(self._claims)

    @property
    def jobs_hold(self) -> bool:
        """Whether anything but a bare reservation is held."""
        return any(not claim.bare for claim in self._claims.values())

    @property
    def free(self) -> Inventory:
        """What can be given away now: in the inventory, held by nobody, and not withheld."""
        free = self._held.free_of(self._inventory)
        if not self._withheld:
            return free
        return msgspec.structs.replace(free, gpus=tuple(gpu for gpu in free.gpus if self._withheld.isdisjoint(gpu.names)))

    @property
    def missing(self) -> Inventory:
        """What is held and is not in the inventory any more. It is not free, and comes back to its holder if it returns."""
        memory_bytes, generic = self._held.beyond(self._inventory)
        claims = self._claims.values()
        return Inventory(
            cpus=tuple(sorted({cpu for claim in claims for cpu in self._cpus_missing(claim)})),
            memory_bytes=memory_bytes,
            gpus=_apart(gpu for claim in claims for gpu in self._gpus_missing(claim)),
            generic=generic,
        )

    @property
    def known(self) -> Inventory:
        """The inventory with all that is missing: what was given is good under it. To be recorded for the next start."""
        missing = self.missing
        replaced = {name for gpu in missing.gpus for name in gpu.names}
        gpus = [gpu for gpu in self._inventory.gpus if replaced.isdisjoint(gpu.names)]
        generic = dict(self._inventory.generic)
        for name, count in missing.generic.items():
            generic[name] = generic.get(name, 0) + count
        return Inventory(
            cpus=tuple(sorted({*self._inventory.cpus, *missing.cpus})),
            memory_bytes=self._inventory.memory_bytes + missing.memory_bytes,
            gpus=tuple(sorted([*gpus, *missing.gpus], key=str)),
            generic=generic,
        )

    def missing_of(self, key: AttemptId) -> tuple[str, ...]:
        """The CPUs and GPUs of this attempt that are missing, for people. Missing memory is nobody's in particular.

        Raises NotHeld.
        """
        claim = self._claims.get(key)
        if claim is None:
            raise NotHeld(key)
        return (*(f"CPU {cpu}" for cpu in self._cpus_missing(claim)), *(f"GPU {gpu}" for gpu in self._gpus_missing(claim)))

    def shortages(self, request: ResourceRequest) -> tuple[Shortage, ...]:
        """What is short for it now; none where it fits."""
        return shortages_of(request, self.free, self._inventory)

    def fits(self, request: ResourceRequest) -> bool:
        """Whether `allocate` would give it now."""
        return not self.shortages(request)

    def ever_fits(self, request: ResourceRequest) -> bool:
        """Whether it would fit if nobody held anything, as far as the inventory of now tells."""
        return not shortages_of(request, self._inventory, self._inventory)

    def allocate(self, key: AttemptId, request: ResourceRequest, *, bare: bool = False) -> Allocation:
        """Choose among what is free, and claim it. Raises Insufficient, or Conflict where `key` holds something already."""
        self._raise_if_claimed(key)
        free = self.free
        shortages = shortages_of(request, free, self._inventory)
        if shortages:
            raise Insufficient(key, shortages)
        allocation = choose(request, free)
        self._take(key, Claim(allocation=allocation, bare=bare))
        return allocation

    def restore(self, key: AttemptId, allocation: Allocation) -> None:
        """Claim exactly this, all or nothing. Raises Conflict, which names each thing that cannot be had and who has it."""
        self._raise_if_claimed(key)
        self._take(key, Claim(allocation=allocation))

    def restore_beside(self, key: AttemptId, allocation: Allocation) -> bool:
        """Claim exactly this for what runs, and uses all of it: what the node has not got is `missing`.

        Whether another has a CPU or a GPU of it; that is free once both have given it back. Raises Conflict where `key` holds
        something already.
        """
        self._raise_if_claimed(key)
        shared = self._shares(allocation)
        self._claims[key] = Claim(allocation=allocation)
        self._held.add(key, allocation)
        return shared

    def release(self, key: AttemptId) -> Allocation:
        """Give back all that `key` holds, once. Raises NotHeld for a second time, and changes nothing."""
        claim = self._claims.pop(key, None)
        if claim is None:
            raise NotHeld(key)
        self._held.remove(key, claim.allocation)
        return claim.allocation

    def apply_inventory(self, inventory: Inventory) -> None:
        """What the node has from now on. Claims stay as they are: what of them has vanished is `missing`, and not free."""
        self._inventory = inventory

    def withhold(self, gpu: Gpu) -> None:
        """Give it to nobody from now on. Who has it keeps it."""
        self._withheld.update(gpu.names)

    def readmit(self, gpu: Gpu) -> None:
        """Undo `withhold`."""
        self._withheld.difference_update(gpu.names)

    def _raise_if_claimed(self, key: AttemptId) -> None:
        if key in self._claims:
            raise Conflict(key, (Clash(thing=f"attempt {key}", claimants=(key,), reason="it holds resources already"),))

    def _take(self, key: AttemptId, claim: Claim) -> None:
        clashes = tuple(self._clashes(claim.allocation))
        if clashes:
            raise Conflict(key, clashes)
        self._claims[key] = claim
        self._held.add(key, claim.allocation)

    def _shares(self, wanted: Allocation) -> bool:
        """Whether another has a CPU or a GPU of it. Memory and what is counted nobody has in particular."""
        return any(cpu in self._held.cpus for cpu in wanted.cpus) or any(self._held.holder_of(gpu) for gpu in wanted.gpus)

    def _clashes(self, wanted: Allocation) -> Iterator[Clash]:
        yield from self._cpu_clashes(wanted)
        yield from self._gpu_clashes(wanted)
        yield from self._sum_clashes(wanted)

    def _cpu_clashes(self, wanted: Allocation) -> Iterator[Clash]:
        there = set(self._inventory.cpus)
        for cpu in wanted.cpus:
            holder = self._held.holder_of_cpu(cpu)
            if holder is not None:
                yield _busy(f"CPU {cpu}", holder)
            elif cpu not in there:
                yield _absent(f"CPU {cpu}")

    def _gpu_clashes(self, wanted: Allocation) -> Iterator[Clash]:
        for gpu in wanted.gpus:
            holder = self._held.holder_of(gpu)
            if holder is not None:
                yield _busy(f"GPU {gpu}", holder)
            elif self._is_gone(gpu):
                yield _absent(f"GPU {' '.join(gpu.names)}")

    def _sum_clashes(self, wanted: Allocation) -> Iterator[Clash]:
        free_bytes = self._held.free_memory_of(self._inventory)
        if wanted.memory_bytes > free_bytes:
            holders = tuple(sorted(key for key, claim in self._claims.items() if claim.allocation.memory_bytes))
            yield _too_much("bytes of memory", wanted.memory_bytes, free_bytes, holders)
        free = self._held.free_generic_of(self._inventory)
        for name, count in wanted.generic.items():
            if count > free.get(name, 0):
                holders = tuple(sorted(key for key, claim in self._claims.items() if name in claim.allocation.generic))
                yield _too_much(name, count, free.get(name, 0), holders)

    def _cpus_missing(self, claim: Claim) -> list[int]:
        return sorted(set(claim.allocation.cpus).difference(self._inventory.cpus))

    def _gpus_missing(self, claim: Claim) -> list[Gpu]:
        return [gpu for gpu in claim.allocation.gpus if self._is_gone(gpu)]

    def _is_gone(self, gpu: Gpu) -> bool:
        """A device with another UUID at its address is not the one that was there."""
        return all(other.names != gpu.names for other in self._inventory.gpus)


def _apart(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Each device once, though more than one claims it, or what was or is at its address."""
    seen: set[str] = set()
    kept: list[Gpu] = []
    for gpu in gpus:
        if seen.isdisjoint(gpu.names):
            kept.append(gpu)
            seen.update(gpu.names)
    return tuple(sorted(kept, key=str))


def _busy(thing: str, holder: AttemptId) -> Clash:
    return Clash(thing=thing, claimants=(holder,), reason=f"{holder} holds it")


def _absent(thing: str) -> Clash:
    return Clash(thing=thing, claimants=(), reason="this node has none such")


def _too_much(what: str, wanted: int, free: int, holders: tuple[AttemptId, ...]) -> Clash:
    return Clash(thing=what, claimants=holders, reason=f"{wanted} claimed, and {free} free")
