"""The table of resources by example: what it gives, what it refuses and whom it names, what a changing inventory does."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.refusal import Conflict, Insufficient, NotHeld
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.resources.table import ResourceTable
from spurproc.proto.attempt_id import AttemptId


def gpu(bus: int, uuid: str | None = None, kind: str = "nvidia") -> Gpu:
    return Gpu(kind=kind, pci_address=f"0000:{bus:02x}:00.0", uuid=uuid or f"GPU-of-bus-{bus:02x}")


FIRST, SECOND, LATER = AttemptId(1, 1), AttemptId(2, 1), AttemptId(3, 1)
NODE = Inventory(cpus=(0, 1, 2, 3), memory_bytes=1000, gpus=(gpu(0x41), gpu(0x65)), generic={"license": 2})
ALL = ResourceRequest(cpus=4, memory_bytes=1000, gpus=2, generic={"license": 2})
WITHOUT_41 = Inventory(cpus=NODE.cpus, memory_bytes=1000, gpus=(gpu(0x65),), generic=NODE.generic)


@pytest.fixture
def table() -> ResourceTable:
    return ResourceTable(NODE)


def test_what_is_given_is_exact_and_not_free_any_more(table: ResourceTable) -> None:
    """IN-02: by CPU number, and by address and UUID."""
    allocation = table.allocate(FIRST, ResourceRequest(cpus=2, memory_bytes=300, gpus=1, generic={"license": 1}))
    assert allocation == Allocation(cpus=(0, 1), memory_bytes=300, gpus=(gpu(0x41),), generic={"license": 1})
    assert table.free == Inventory(cpus=(2, 3), memory_bytes=700, gpus=(gpu(0x65),), generic={"license": 1})
    assert table.jobs_hold


def test_cpus_come_from_the_inventory_only() -> None:
    """SP-21: under `taskset -c 1,3` a job of two CPUs gets these, and one of three none."""
    table = ResourceTable(Inventory(cpus=(1, 3), memory_bytes=1))
    assert not table.fits(ResourceRequest(cpus=3))
    assert table.allocate(FIRST, ResourceRequest(cpus=2)).cpus == (1, 3)


def test_all_that_is_short_is_named_and_nothing_is_taken(table: ResourceTable) -> None:
    table.allocate(FIRST, ResourceRequest(cpus=3, memory_bytes=900))
    free = table.free
    with pytest.raises(Insufficient) as caught:
        table.allocate(SECOND, ResourceRequest(cpus=2, memory_bytes=101, gpus=1, gpu_kind="amd", generic={"seat": 1}))
    assert str(caught.value) == (
        "cannot allocate resources for 2.1: CPUs: 2 wanted, 1 of 4 free; bytes of memory: 101 wanted, 100 of 1000 free; "
        "GPUs of kind amd: 1 wanted, 0 of 0 free; seat: 1 wanted, 0 of 0 free"
    )
    assert [shortage.ever_met for shortage in caught.value.shortages] == [True, True, False, False]
    assert table.free == free


def test_what_does_not_fit_now_may_fit_later(table: ResourceTable) -> None:
    table.allocate(FIRST, ALL)
    assert not table.fits(ResourceRequest())
    assert table.ever_fits(ALL)
    assert not table.ever_fits(ResourceRequest(cpus=5))


def test_a_second_claim_is_refused_by_thing_and_holder(table: ResourceTable) -> None:
    table.restore(FIRST, Allocation(cpus=(1,), gpus=(gpu(0x41),)))
    table.restore(SECOND, Allocation(cpus=(2,), memory_bytes=600, generic={"license": 2}))
    free = table.free
    wanted = Allocation(cpus=(0, 1, 9), memory_bytes=500, gpus=(gpu(0x41), gpu(0x99)), generic={"license": 1})
    with pytest.raises(Conflict) as caught:
        table.restore(LATER, wanted)
    assert {clash.thing: clash.claimants for clash in caught.value.clashes} == {
        "CPU 1": (FIRST,),
        "CPU 9": (),
        "GPU 0000:41:00.0": (FIRST,),
        "GPU 0000:99:00.0 GPU-of-bus-99": (),
        "bytes of memory": (SECOND,),
        "license": (SECOND,),
    }
    assert caught.value.claimants == (FIRST, SECOND)
    assert str(caught.value).startswith("cannot claim resources for 3.1: CPU 1: 1.1 holds it; CPU 9: this node has none such; ")
    assert table.free == free
    assert LATER not in table.claims


def test_what_runs_claims_all_that_it_uses(table: ResourceTable) -> None:
    """Also what another has, and what the node has not got, or not so much; what it gives back is that and no more."""
    table.restore(FIRST, Allocation(cpus=(1,), gpus=(gpu(0x41),), generic={"license": 2}))
    free = table.free
    wanted = Allocation(cpus=(0, 1, 9), memory_bytes=5000, gpus=(gpu(0x41), gpu(0x99)), generic={"license": 1})
    assert table.restore_beside(SECOND, wanted)
    assert (table.missing.cpus, table.missing.gpus) == ((9,), (gpu(0x99),))
    assert 0 not in table.free.cpus
    assert table.free.memory_bytes == 0
    assert table.release(SECOND) == wanted
    assert table.free == free
    assert not table.restore_beside(LATER, Allocation(cpus=(2,), memory_bytes=5000))


def test_one_that_was_left_nothing_holds_all_the_same(table: ResourceTable) -> None:
    """Not one CPU is its own: its licences are nobody else's, and its CPU and GPU not even once the other has given them back."""
    shared = Allocation(cpus=(1,), gpus=(gpu(0x41),))
    table.restore(FIRST, shared)
    table.restore_beside(SECOND, replace(shared, memory_bytes=600, generic={"license": 2}))
    assert table.free == Inventory(cpus=(0, 2, 3), memory_bytes=400, gpus=(gpu(0x65),))
    table.release(FIRST)
    assert table.free.cpus == (0, 2, 3)
    assert table.free.gpus == (gpu(0x65),)
    table.release(SECOND)
    assert table.free == NODE


def test_who_holds_something_gets_nothing_else(table: ResourceTable) -> None:
    """A repeated dispatch must not double what an attempt has."""
    held = table.allocate(FIRST, ResourceRequest())
    with pytest.raises(Conflict, match=r"attempt 1\.1: it holds resources already"):
        table.allocate(FIRST, ResourceRequest())
    with pytest.raises(Conflict, match=r"attempt 1\.1: it holds resources already"):
        table.restore(FIRST, held)


def test_release_is_once_and_by_the_exact_attempt(table: ResourceTable) -> None:
    """IN-05: a second release would free what somebody else has by then."""
    held = table.allocate(FIRST, ALL)
    with pytest.raises(NotHeld, match=r"cannot release resources of 1\.2: it holds none"):
        table.release(AttemptId(1, 2))
    assert table.release(FIRST) == held
    assert table.free == NODE
    table.allocate(SECOND, ALL)
    with pytest.raises(NotHeld):
        table.release(FIRST)
    assert SECOND in table.claims


def test_bare_reservation_holds_and_is_no_job(table: ResourceTable) -> None:
    table.allocate(FIRST, ALL, bare=True)
    assert not table.fits(ResourceRequest())
    assert not table.jobs_hold
    assert table.claims[FIRST].bare


def test_gpu_that_vanishes_under_a_job_is_missing_and_not_free(table: ResourceTable) -> None:
    """IN-04; and when it returns it is still the job's."""
    table.allocate(FIRST, ResourceRequest(gpus=1))
    table.apply_inventory(WITHOUT_41)
    assert table.missing.gpus == (gpu(0x41),)
    assert table.missing_of(FIRST) == ("GPU 0000:41:00.0",)
    assert table.free.gpus == (gpu(0x65),)
    assert not table.ever_fits(ResourceRequest(gpus=2))
    assert table.known == NODE
    table.apply_inventory(NODE)
    assert table.missing == Inventory()
    assert table.free.gpus == (gpu(0x65),)
    table.release(FIRST)
    assert table.free == NODE


def test_gpu_that_stays_away_is_forgotten_with_its_job(table: ResourceTable) -> None:
    table.allocate(FIRST, ResourceRequest(gpus=1))
    table.apply_inventory(WITHOUT_41)
    table.release(FIRST)
    assert table.missing == Inventory()
    assert table.free == WITHOUT_41
    with pytest.raises(Conflict, match="this node has none such"):
        table.restore(SECOND, Allocation(cpus=(0,), gpus=(gpu(0x41),)))


def test_lower_address_that_appears_moves_nobody(table: ResourceTable) -> None:
    """IN-02: a position would now name another GPU."""
    held = table.allocate(FIRST, ResourceRequest(gpus=1))
    table.apply_inventory(Inventory(cpus=NODE.cpus, memory_bytes=1000, gpus=(gpu(0x01), *NODE.gpus), generic=NODE.generic))
    assert table.claims[FIRST].allocation == held
    assert table.free.gpus == (gpu(0x01), gpu(0x65))


@pytest.mark.parametrize("other", [gpu(0x41, uuid="GPU-exchanged"), gpu(0x42, uuid="GPU-of-bus-41")])
def test_what_may_be_a_gpu_that_is_held_is_not_free(table: ResourceTable, other: Gpu) -> None:
    """Another device at its address, or its UUID at another address: missing, and given to nobody until the job has ended."""
    table.allocate(FIRST, ResourceRequest(gpus=1))
    table.apply_inventory(Inventory(cpus=NODE.cpus, memory_bytes=1000, gpus=(other, gpu(0x65)), generic=NODE.generic))
    assert table.missing.gpus == (gpu(0x41),)
    assert table.free.gpus == (gpu(0x65),)
    with pytest.raises(Conflict, match=r"1\.1 holds it"):
        table.restore(SECOND, Allocation(cpus=(3,), gpus=(other,)))
    table.release(FIRST)
    assert list(table.free.gpus) == [other, gpu(0x65)]


def test_cpus_memory_and_licences_that_vanish_under_a_job(table: ResourceTable) -> None:
    table.allocate(FIRST, ResourceRequest(cpus=3, memory_bytes=800, generic={"license": 2}))
    table.apply_inventory(Inventory(cpus=(2, 3), memory_bytes=500, generic={"license": 1}))
    assert table.missing == Inventory(cpus=(0, 1), memory_bytes=300, generic={"license": 1})
    assert table.missing_of(FIRST) == ("CPU 0", "CPU 1")
    assert table.free == Inventory(cpus=(3,))
    assert table.known == Inventory(cpus=(0, 1, 2, 3), memory_bytes=800, generic={"license": 2})
    table.release(FIRST)
    assert table.free == table.known == table.inventory


def test_nobody_misses_anything_without_holding_it(table: ResourceTable) -> None:
    with pytest.raises(NotHeld):
        table.missing_of(FIRST)
