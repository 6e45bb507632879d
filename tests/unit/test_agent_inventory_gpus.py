"""GPUs by the word of their drivers: NVIDIA's and the kernel's for AMD's. What cannot be read is never left out."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spurproc.agent.inventory.kfd import read_kfd
from spurproc.agent.inventory.nvidia import read_nvidia
from spurproc.agent.inventory.reading import Failed, Gpu
from tests.node_tree import NodeTree
from tests.relatives import NOBODY, in_fork

PCI, TOLD = "/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"
NODES = "/sys/class/kfd/kfd/topology/nodes"
A100 = Gpu(
    kind="nvidia", pci_address="0000:41:00.0", uuid="GPU-6f2c1a58-0d5e-4a0b-9d0a-8d3a2f6f1b11", model="NVIDIA A100 80GB PCIe"
)
L4 = Gpu(kind="nvidia", pci_address="0000:65:00.0", uuid="GPU-b4a07f8e-33c1-4d7e-a8f5-0c5d1e9b7a22", model="NVIDIA L4")
MI210 = Gpu(kind="amd", pci_address="0000:c5:00.0", uuid="GPU-6c62a3758b84fd47", model="gfx90a")
R9700 = Gpu(kind="amd", pci_address="0001:03:00.0", model="gfx1201")


def reason(reading: object) -> str:
    assert isinstance(reading, Failed), reading
    return reading.reason


@pytest.fixture
def nvidia(tmp_path: Path) -> NodeTree:
    return NodeTree("nvidia", tmp_path)


@pytest.fixture
def amd(tmp_path: Path) -> NodeTree:
    return NodeTree("amd", tmp_path)


@pytest.mark.parametrize("name", ["captured-v1", "cdi"])
def test_machine_without_gpus_has_none(name: str, tmp_path: Path) -> None:
    tree = NodeTree(name, tmp_path)
    assert read_nvidia(tree.root) == ()
    assert read_kfd(tree.root) == ()


def test_nvidia_gpus_are_those_of_the_driver(nvidia: NodeTree) -> None:
    """IN-02, IN-07: by address and UUID, whatever minors and whatever order the driver has. What vfio has is not ours."""
    assert read_nvidia(nvidia.root) == (A100, L4)


@pytest.mark.parametrize("word", ["GPU Excluded:\t No", "Blacklisted:\t No"])
def test_gpu_that_the_driver_excludes_is_none(word: str, nvidia: NodeTree) -> None:
    path = f"{TOLD}/{A100}/information"
    nvidia.replace(path, "GPU Excluded:\t No", word)
    assert read_nvidia(nvidia.root) == (A100, L4)
    nvidia.replace(path, word, word.replace("No", "Yes"))
    assert read_nvidia(nvidia.root) == (L4,)


def test_gpu_that_left_the_bus_and_the_driver_has_vanished(nvidia: NodeTree) -> None:
    nvidia.remove(f"{PCI}/{A100}")
    nvidia.remove(f"{TOLD}/{A100}")
    assert read_nvidia(nvidia.root) == (L4,)


@pytest.mark.parametrize("left", [PCI, TOLD])
def test_bus_and_driver_that_do_not_agree_cannot_be_told(left: str, nvidia: NodeTree) -> None:
    """While a GPU is removed or reset one of them knows it first: that is no machine with one GPU."""
    nvidia.remove(f"{left}/{A100}")
    assert reason(read_nvidia(nvidia.root)).startswith("NVIDIA GPUs: 0000:41:00.0 is in /")


def test_driver_that_tells_nothing_cannot_be_told(nvidia: NodeTree) -> None:
    nvidia.remove("/proc/driver")
    assert "is in /sys/bus/pci/devices and, for the driver nvidia, not in /proc/driver/nvidia/gpus" in reason(
        read_nvidia(nvidia.root)
    )


def test_virtual_function_is_the_hypervisors_business(nvidia: NodeTree) -> None:
    for name, text in (("vendor", "0x10de\n"), ("class", "0x030200\n")):
        nvidia.write(f"{PCI}/0000:41:00.4/{name}", text)
    nvidia.at(f"{PCI}/0000:41:00.4/driver").symlink_to("../../drivers/nvidia")
    assert "0000:41:00.4" in reason(read_nvidia(nvidia.root))
    nvidia.at(f"{PCI}/0000:41:00.4/physfn").symlink_to("../0000:41:00.0")
    assert read_nvidia(nvidia.root) == (A100, L4)


def test_switch_of_the_driver_is_no_gpu(nvidia: NodeTree) -> None:
    """The driver has the bridges between GPUs too, and tells nothing about them where it tells about GPUs."""
    for name, text in (("vendor", "0x10de\n"), ("class", "0x068000\n")):
        nvidia.write(f"{PCI}/0000:c3:00.0/{name}", text)
    nvidia.at(f"{PCI}/0000:c3:00.0/driver").symlink_to("../../drivers/nvidia")
    assert read_nvidia(nvidia.root) == (A100, L4)


def test_uuid_that_the_driver_does_not_know_yet_cannot_be_told(nvidia: NodeTree) -> None:
    """It would be another device's name as soon as something opens the GPU."""
    nvidia.replace(f"{TOLD}/{L4}/information", str(L4.uuid), "GPU-????????-????-????-????-????????????")
    assert "GPU UUID is 'GPU-????????" in reason(read_nvidia(nvidia.root))
    assert "nvidia-persistenced" in reason(read_nvidia(nvidia.root))


def test_information_about_another_gpu_is_not_believed(nvidia: NodeTree) -> None:
    nvidia.replace(f"{TOLD}/{L4}/information", str(L4), "0000:66:00.0")
    assert "Bus Location is '0000:66:00.0'" in reason(read_nvidia(nvidia.root))


@pytest.mark.parametrize(
    "path", [f"{TOLD}/{L4}/information", f"{PCI}/{L4}/vendor", f"{PCI}/{L4}/class", f"{PCI}/{L4}/driver", PCI]
)
def test_nvidia_file_that_cannot_be_read_is_named(path: str, nvidia: NodeTree) -> None:
    if path == PCI:
        nvidia.remove(path)
        nvidia.write(path, "")
    else:
        nvidia.spoil(path)
    assert path in reason(read_nvidia(nvidia.root))


def test_amd_gpus_are_the_nodes_that_have_a_gpu_id(amd: NodeTree) -> None:
    """IN-01: node 0 is a CPU. The number of a node is a position; the address is made of domain and location."""
    assert read_kfd(amd.root) == (MI210, R9700)


@pytest.mark.parametrize("node", ["0", "1", "2"])
@pytest.mark.parametrize("spoiled", [True, False])
def test_node_that_cannot_be_read_is_named(node: str, spoiled: bool, amd: NodeTree) -> None:
    """IN-01: an unreadable node may be a GPU, even where it stands first."""
    (amd.spoil if spoiled else amd.remove)(f"{NODES}/{node}/gpu_id")
    why = "Is a directory" if spoiled else "No such file or directory"
    assert reason(read_kfd(amd.root)) == f"AMD GPUs: cannot read {NODES}/{node}/gpu_id: {why}"


def test_node_without_permission_is_named() -> None:
    """IN-01: mode 0000; to a process whose device cgroup excludes the GPU the kernel answers EPERM, which is no other case."""
    with tempfile.TemporaryDirectory() as folder:
        tree = NodeTree("amd", Path(folder))
        os.chmod(folder, 0o755)  # another user looks into it
        tree.at(f"{NODES}/1/properties").chmod(0)
        told = in_fork(lambda: reason(read_kfd(tree.root)), uid=NOBODY if os.geteuid() == 0 else None)
    assert told == f"AMD GPUs: cannot read {NODES}/1/properties: Permission denied"


@pytest.mark.parametrize(
    ("line", "instead", "named"),
    [
        ("location_id 50432\n", "", "location_id"),
        ("location_id 50432", "location_id -1", "location_id"),
        ("unique_id 7809984429061111111", "unique_id GPU", "unique_id"),
        ("domain 0", "domain 99999999999", "pci_address"),
    ],
)
def test_node_that_says_nothing_is_named(line: str, instead: str, named: str, amd: NodeTree) -> None:
    amd.replace(f"{NODES}/1/properties", line, instead)
    assert named in reason(read_kfd(amd.root))


@pytest.mark.parametrize(
    ("line", "other"),
    [("location_id 768", "location_id 50432"), ("unique_id 0", "unique_id 7809984429061111111")],
)
def test_two_nodes_of_one_gpu_cannot_be_told_apart(line: str, other: str, amd: NodeTree) -> None:
    """A partitioned GPU: given away as two it would be given away twice."""
    amd.replace(f"{NODES}/2/properties", "domain 1", "domain 0")
    amd.replace(f"{NODES}/2/properties", line, other)
    assert f"{NODES}/1 and {NODES}/2 are both" in reason(read_kfd(amd.root))


def test_topology_that_changes_while_it_is_read_cannot_be_told(amd: NodeTree) -> None:
    """The reader stands at node 1, a pipe, when the driver takes in another GPU."""
    amd.remove(f"{NODES}/1/gpu_id")
    os.mkfifo(amd.at(f"{NODES}/1/gpu_id"))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_kfd, amd.root)
        with open(amd.at(f"{NODES}/1/gpu_id"), "w") as pipe:
            amd.write("/sys/class/kfd/kfd/topology/generation_id", "4\n")
            pipe.write("17424\n")
    assert reason(reading.result()) == "AMD GPUs: /sys/class/kfd/kfd/topology has changed while it was read"


def test_node_that_is_gone_has_vanished(amd: NodeTree) -> None:
    amd.remove(f"{NODES}/1")
    assert read_kfd(amd.root) == (R9700,)


@pytest.mark.parametrize("path", ["/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"])
def test_folder_that_cannot_be_listed_is_named(path: str, nvidia: NodeTree) -> None:
    """It is not empty by that: a file has its name here."""
    for place in ("/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"):
        nvidia.remove(place)
    nvidia.write(path, "")
    reading = read_nvidia(nvidia.root)
    assert isinstance(reading, Failed)
    assert f"cannot list {path}" in reading.reason


def test_topology_without_nodes_cannot_be_told(amd: NodeTree) -> None:
    amd.remove(NODES)
    assert reason(read_kfd(amd.root)) == f"AMD GPUs: {NODES} is not there, and the driver is there"
    amd.write(f"{NODES}/x/gpu_id", "1")
    assert f"{NODES}/x: it is no node" in reason(read_kfd(amd.root))
