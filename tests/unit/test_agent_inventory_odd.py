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
