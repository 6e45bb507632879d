"""Which files in /dev are a GPU's, and that what is withheld is given to nobody."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from spurproc.agent.inventory.node_files import Unreadable
from spurproc.agent.inventory.occupancy import device_files, uses_of
from spurproc.agent.inventory.reading import Gpu, Inventory
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.resources.table import ResourceTable
from spurproc.proto.attempt_id import AttemptId
from tests.node_tree import NodeTree

FIRST = Gpu(kind="nvidia", pci_address="0000:41:00.0", uuid="GPU-aaaa")
SECOND = Gpu(kind="nvidia", pci_address="0000:65:00.0", uuid="GPU-bbbb")


def test_a_gpu_has_the_files_that_the_node_says(tmp_path: Path) -> None:
    """By its driver, by what its place on the bus says, or by a spec that names it; none for one that is not there."""
    nvidia, amd, cdi = (NodeTree(name, tmp_path) for name in ("nvidia", "amd", "cdi"))
    assert device_files(nvidia.root, FIRST) == ("/dev/nvidia1",)
    for name in ("card1", "renderD129", "controlD65"):
        amd.write(f"/sys/bus/pci/devices/0000:c5:00.0/drm/{name}/uevent", "")
    assert device_files(amd.root, Gpu(kind="amd", pci_address="0000:c5:00.0")) == ("/dev/dri/card1", "/dev/dri/renderD129")
    assert device_files(cdi.root, Gpu(kind="example.com/gpu", uuid="GPU-0b22")) == ("/dev/example1",)
    assert device_files(cdi.root, FIRST) == ()
    cdi.replace("/etc/cdi/example.json", "GPU-0b22", "0000:0A:00.0")
    assert device_files(cdi.root, Gpu(kind="example.com/gpu", pci_address="0000:0a:00.0")) == ("/dev/example1",)


def test_what_cannot_be_read_hides_no_gpu_of_which_something_else_tells(tmp_path: Path) -> None:
    """Of any other it may be the one thing that does, so nobody can tell which files that has."""
    nvidia, cdi = (NodeTree(name, tmp_path) for name in ("nvidia", "cdi"))
    for tree in (nvidia, cdi):
        tree.write("/etc/cdi/broken.json", "{")
    assert device_files(nvidia.root, FIRST) == ("/dev/nvidia1",)
    assert device_files(cdi.root, Gpu(kind="example.com/gpu", uuid="GPU-0b22")) == ("/dev/example1",)
    with pytest.raises(Unreadable, match=r"broken\.json"):
        device_files(cdi.root, FIRST)
    nvidia.spoil(f"/proc/driver/nvidia/gpus/{FIRST.pci_address}/information")
    with pytest.raises(Unreadable, match="information"):
        device_files(nvidia.root, FIRST)


def test_who_has_no_descriptor_left_sees_no_use_and_says_so(tmp_path: Path) -> None:
    """Nothing was looked at, which is not the same as that nobody was found."""
    path = tmp_path / "device"
    path.touch()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with path.open():
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                uses_of("/", [str(path)], since_ticks=0, spared=())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_is_withheld_is_free_for_nobody_and_its_holder_keeps_it() -> None:
    table = ResourceTable(Inventory(cpus=(0, 1), gpus=(FIRST, SECOND)))
    table.withhold(FIRST)
    assert table.free.gpus == (SECOND,)
    assert table.ever_fits(ResourceRequest(gpus=2))
    assert not table.fits(ResourceRequest(gpus=2))
    assert table.allocate(AttemptId(1, 1), ResourceRequest(gpus=1)).gpus == (SECOND,)
    table.readmit(FIRST)
    given = table.allocate(AttemptId(2, 1), ResourceRequest(gpus=1))
    table.withhold(FIRST)
    assert table.claims[AttemptId(2, 1)].allocation == given
    table.release(AttemptId(2, 1))
    assert not table.free.gpus
