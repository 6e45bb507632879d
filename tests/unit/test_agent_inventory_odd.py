"""Files of a node as nobody ought to write them: each makes the reading Failed, and says so. None of them ends the agent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spurproc.agent.inventory.reading import Failed, Inventory
from spurproc.agent.inventory.scan import Sources, scan
from spurproc.proto.codec import encode
from tests.node_tree import NodeTree

A100, TOLD = "0000:41:00.0", "/proc/driver/nvidia/gpus"
A100_UUID, L4_UUID = "GPU-6f2c1a58-0d5e-4a0b-9d0a-8d3a2f6f1b11", "GPU-b4a07f8e-33c1-4d7e-a8f5-0c5d1e9b7a22"
PCI, NODES = "/sys/bus/pci/devices", "/sys/class/kfd/kfd/topology/nodes"
YAML = """cdiVersion: "0.6.0"
kind: other.com/gpu
devices:
- name: {name}
  containerEdits:
    deviceNodes:
    - path: {path}
"""


def reason(tree: NodeTree) -> str:
    """Why it failed, as it is told on sockets and written down."""
    reading = scan(Sources(affinity=frozenset(range(64)), root=tree.root))
    assert isinstance(reading, Failed), reading
    reading.reason.encode()
    return reading.reason


def names(tree: NodeTree) -> set[str]:
    """What its GPUs are called."""
    reading = scan(Sources(affinity=frozenset(range(64)), root=tree.root))
    assert isinstance(reading, Inventory), reading
    return {name for gpu in reading.gpus for name in gpu.names}


def spec(nodes: dict[str, list[str]], version: str = "0.6.0") -> str:
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}} for name, paths in nodes.items()
    ]
    return json.dumps({"cdiVersion": version, "kind": "other.com/gpu", "devices": devices})


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("2001-13-45", "/dev/example0"),
        ("!!int x", "/dev/example0"),
        ("!!bool maybe", "/dev/example0"),
        ("!!timestamp x", "/dev/example0"),
        ('"GPU-\\ud800"', "/dev/example0"),
        ("GPU-1111", '"/dev/\\0"'),
        ("GPU-1111", '"/dev/\\ud800"'),
    ],
)
def test_what_no_spec_can_mean_is_named(name: str, path: str, tmp_path: Path) -> None:
    tree = NodeTree("cdi", tmp_path)
    tree.write("/etc/cdi/odd.yaml", YAML.format(name=name, path=path))
    assert "/etc/cdi/odd.yaml" in reason(tree)


def test_name_that_is_no_unicode_can_be_told(tmp_path: Path) -> None:
    tree = NodeTree("cdi", tmp_path)
    Path(os.fsdecode(os.fsencode(tree.at("/etc/cdi")) + b"/\xff.json")).write_text("{")
    assert "cannot read /etc/cdi/\\xff.json: " in reason(tree)


def test_cgroup_whose_name_is_no_path_is_named(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.at("/proc/self/cgroup").write_bytes(b"0::/a\0b\n")
    assert "a\\x00b" in reason(tree)


def test_model_that_is_no_unicode_can_be_recorded(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    path = tree.at(f"{TOLD}/{A100}/information")
    path.write_bytes(path.read_bytes().replace(b"NVIDIA A100", b"\xff A100"))
    reading = scan(Sources(affinity=frozenset(range(64)), root=tree.root))
    assert isinstance(reading, Inventory)
    encode(reading)
    assert reading.gpus[0].model == "\\xff A100 80GB PCIe"


def write_spec(tree: NodeTree, text: str, form: str = "json") -> None:
    tree.write(f"/etc/cdi/odd.{form}", text)


@pytest.mark.parametrize("version", ["", "0.6", "banana", "2.0.0", "99.0.0"])
def test_version_that_nobody_knows_is_named(version: str, tmp_path: Path) -> None:
    """What its devices mean there nobody can tell."""
    tree = NodeTree("cdi", tmp_path)
    write_spec(tree, spec({"GPU-1111": ["/dev/example0"]}, version))
    assert "/etc/cdi/odd.json" in reason(tree)


@pytest.mark.parametrize("version", ["0.3.0", "v0.8.0", "1.1.0"])
def test_versions_that_are_known(version: str, tmp_path: Path) -> None:
    tree = NodeTree("cdi", tmp_path)
    write_spec(tree, spec({"GPU-1111": ["/dev/example0"]}, version))
    assert "GPU-1111" in names(tree)


@pytest.mark.parametrize("path", ["dev/example0", "example0", ""])
def test_path_that_is_not_absolute_has_not_vanished(path: str, tmp_path: Path) -> None:
    tree = NodeTree("cdi", tmp_path)
    write_spec(tree, spec({"GPU-1111": [path]}))
    assert "/etc/cdi/odd.json" in reason(tree)


def test_devices_that_are_told_twice_are_not_the_last_ones(tmp_path: Path) -> None:
    """A key that stands twice: of the first list nothing would be left."""
    tree = NodeTree("cdi", tmp_path)
    write_spec(tree, spec({"GPU-1111": []})[:-1] + ', "devices": []}')
    assert "'devices' stands twice" in reason(tree)
    tree.remove("/etc/cdi/odd.json")
    write_spec(tree, YAML.format(name="GPU-1111", path="/dev/example0") + "devices: []\n", "yaml")
    assert "'devices' stands twice" in reason(tree)


def test_what_a_mapping_merges_and_has_itself_is_told_once(tmp_path: Path) -> None:
    """Also where somebody merges that mapping in turn."""
    tree = NodeTree("cdi", tmp_path)
    tree.write("/dev/example0", "")
    merged = "x: &x {env: [A=1], mounts: []}\ny: [&y {<<: *x, env: [B=1]}]\ncontainerEdits: {<<: *y}\n"
    write_spec(tree, YAML.format(name="GPU-1111", path="/dev/example0") + merged, "yaml")
    assert "GPU-1111" in names(tree)


@pytest.mark.parametrize(("whole", "part"), [("GPU-1111", "GPU-2222"), ("0000:0a:00.0", "0000:0b:00.0")])
def test_device_with_a_part_of_another_is_none_less(whole: str, part: str, tmp_path: Path) -> None:
    """What has a name of its own is no name for several devices."""
    tree = NodeTree("cdi", tmp_path)
    write_spec(tree, spec({whole: ["/dev/example0", "/dev/example1"], part: ["/dev/example1"]}))
    assert f"other.com/gpu={whole} of /etc/cdi/odd.json" in reason(tree)
    tree.remove("/dev/example0")
    assert part in names(tree)
    assert whole not in names(tree)


def test_two_addresses_with_one_uuid_are_not_one_gpu(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.replace(f"{TOLD}/{A100}/information", A100_UUID, L4_UUID)
    assert f"{L4_UUID} stands twice" in reason(tree)


@pytest.mark.parametrize("text", ["", "\n", "10de\n", "0x\n", "0xffff10de\n"])
@pytest.mark.parametrize("name", ["vendor", "class"])
def test_bus_that_says_nothing_is_named(name: str, text: str, tmp_path: Path) -> None:
    """Also where the driver has let go of the device: it may be any."""
    tree = NodeTree("nvidia", tmp_path)
    tree.write(f"{PCI}/{A100}/{name}", text)
    tree.remove(f"{TOLD}/{A100}")
    assert f"cannot read {PCI}/{A100}/{name}: " in reason(tree)


@pytest.mark.parametrize("key", ["location_id", "domain", "unique_id", "gfx_target_version"])
def test_property_without_a_value_is_named(key: str, tmp_path: Path) -> None:
    tree = NodeTree("amd", tmp_path)
    path = tree.at(f"{NODES}/1/properties")
    lines = [key if line.startswith(f"{key} ") else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    assert f"cannot read {NODES}/1/properties, {key}: " in reason(tree)


def test_topology_of_no_node_is_none(tmp_path: Path) -> None:
    """The CPU is one, so it is being made, or unmade."""
    tree = NodeTree("amd", tmp_path)
    tree.remove(NODES)
    tree.at(NODES).mkdir()
    assert f"{NODES} is empty, and the driver is there" in reason(tree)


@pytest.mark.parametrize("cgroup", ["/../other", "/not-there"])
def test_cpuset_is_unknown_where_our_cgroup_is_not_there(cgroup: str, tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write("/proc/self/cgroup", f"0::{cgroup}\n")
    assert reason(tree).startswith("CPUs: ")
