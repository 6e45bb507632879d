"""What stands in a database or comes over a socket: a value that means something, or refused by its field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spurproc.agent.inventory.reading import LAST_CPU, MOST, Gpu, Inventory
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.errors import InvalidArgument, RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import RuntimeId

A100 = Gpu(kind="nvidia", pci_address="0000:65:00.0", uuid="GPU-6f2c1a58-0d5e-4a0b-9d0a-8d3a2f6f1b11", model="NVIDIA A100")
COUNTS = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), st.integers(1, MOST), max_size=3)
GPUS = st.sets(st.integers(0, 255), max_size=4).map(
    lambda buses: tuple(Gpu(kind="amd", pci_address=f"0000:{bus:02x}:00.0", uuid=f"GPU-{bus:016x}") for bus in sorted(buses))
)
ALLOCATIONS = st.builds(
    Allocation,
    cpus=st.sets(st.integers(0, LAST_CPU), min_size=1, max_size=5).map(lambda cpus: tuple(sorted(cpus))),
    memory_bytes=st.integers(0, MOST),
    gpus=GPUS,
    generic=COUNTS,
)


@given(ALLOCATIONS)
def test_allocation_comes_back_as_it_was(allocation: Allocation) -> None:
    assert Allocation.from_json(allocation.to_json(), "a row") == allocation


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "a row"),
        (b"{}", "cpus"),
        (b'{"cpus":[]}', "cpus"),
        (b'{"cpus":[1,1]}', "1 stands twice"),
        (b'{"cpus":[2,1]}', "1 stands behind 2"),
        (b'{"cpus":[-1]}', "cpus"),
        (b'{"cpus":[true]}', "cpus"),
        (b'{"cpus":["1"]}', "cpus"),
        (b'{"cpus":[1.0]}', "cpus"),
        (b'{"cpus":[65536]}', "cpus"),
        (b'{"cpus":[%d]}' % 10**40, "cpus"),
        (b'{"cpus":[1],"memory_bytes":-1}', "memory_bytes"),
        (b'{"cpus":[1],"memory_bytes":%d}' % 2**63, "memory_bytes"),
        (b'{"cpus":[1],"gpus":[0]}', "gpus"),
        (b'{"cpus":[1],"gpus":[{"kind":"amd"}]}', "pci_address, uuid"),
        (b'{"cpus":[1],"gpus":[{"kind":"amd","uuid":"0"}]}', "uuid"),
        (b'{"cpus":[1],"gpus":[{"kind":"amd","uuid":"GPU-1,GPU-2"}]}', "uuid"),
        (b'{"cpus":[1],"gpus":[{"kind":"amd","pci_address":"65:00.0"}]}', "pci_address"),
        (b'{"cpus":[1],"gpus":[{"kind":"amd","uuid":"GPU-1"},{"kind":"amd","uuid":"GPU-1"}]}', "GPU-1 stands twice"),
        (b'{"cpus":[1],"gpus":[{"kind":"amd","uuid":"GPU-2"},{"kind":"amd","uuid":"GPU-1"}]}', "order"),
        (b'{"cpus":[1],"generic":{"license":0}}', "generic: license"),
        (b'{"cpus":[1],"generic":{"":1}}', "generic"),
        (b'{"cpus":[1],"huge_pages":4}', "huge_pages"),
    ],
)
def test_allocation_that_cannot_be_held_is_refused_by_its_field(content: bytes, field: str) -> None:
    """Anything that is let through here would be given out a second time."""
    with pytest.raises(RecordInvalid, match=field) as caught:
        Allocation.from_json(content, "a row")
    assert caught.value.path == "a row"


@given(st.binary(max_size=60))
def test_any_bytes_are_an_allocation_or_refused_by_name(content: bytes) -> None:
    try:
        Allocation.from_json(content, "a row")
    except RecordInvalid:
        return


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cpus": 0}, "cpus"),
        ({"cpus": True}, "cpus"),
        ({"cpus": 2**64}, "an integer of 65 bits"),
        ({"memory_bytes": -1}, "memory_bytes"),
        ({"gpus": -1}, "gpus"),
        ({"gpu_kind": "amd"}, "gpu_kind"),
        ({"generic": {"license": 0}}, "generic: license"),
        ({"generic": {"a b": 1}}, "generic"),
    ],
)
def test_request_without_meaning_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        ResourceRequest(**fields)


def test_kind_of_a_request_is_a_family_or_a_model() -> None:
    assert ResourceRequest(gpus=1).takes(A100)
    assert ResourceRequest(gpus=1, gpu_kind="nvidia").takes(A100)
    assert ResourceRequest(gpus=1, gpu_kind="NVIDIA A100").takes(A100)
    assert not ResourceRequest(gpus=1, gpu_kind="amd").takes(A100)


def test_two_gpus_at_one_address_are_no_inventory() -> None:
    other = Gpu(kind="nvidia", pci_address=A100.pci_address, uuid="GPU-other")
    with pytest.raises(InvalidArgument, match=r"0000:65:00\.0 stands twice"):
        Inventory(cpus=(0,), memory_bytes=1, gpus=(A100, other))


def test_inventory_comes_back_as_it_was() -> None:
    inventory = Inventory(cpus=(0, 2), memory_bytes=5, gpus=(A100,), generic={"license": 2})
    assert msgspec.json.decode(msgspec.json.encode(inventory), type=Inventory) == inventory


def test_key_is_the_attempt_of_a_step() -> None:
    """An attempt of 0 names nothing, here as everywhere."""
    assert AttemptId.of(RuntimeId(7, 2, RuntimeId.BATCH)) == AttemptId(7, 2)
    assert str(AttemptId(7, 2)) == "7.2"
    with pytest.raises(InvalidArgument, match="run_attempt"):
        AttemptId(7, 0)
