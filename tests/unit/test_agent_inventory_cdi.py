"""GPUs of CDI specs: a file that somebody wrote once, so what it names has to be there, and by a name that lasts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spurproc.agent.inventory.cdi import read_cdi
from spurproc.agent.inventory.reading import Failed, Gpu
from tests.node_tree import NodeTree

DRIVERS = {"nvidia.com", "amd.com"}
INTEL = Gpu(kind="intel.com/gpu", pci_address="0000:03:00.0")
FIRST, SECOND = Gpu(kind="example.com/gpu", uuid="GPU-0a11"), Gpu(kind="example.com/gpu", uuid="GPU-0b22")


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    return NodeTree("cdi", tmp_path)


def reason(tree: NodeTree) -> str:
    reading = read_cdi(tree.root, DRIVERS)
    assert isinstance(reading, Failed), reading
    return reading.reason


def spec(nodes: dict[str, list[str]], kind: str = "other.com/gpu") -> str:
    devices: list[Any] = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}} for name, paths in nodes.items()
    ]
    return json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices})


def test_gpus_are_named_by_uuid_or_by_what_their_render_node_leads_to(tree: NodeTree) -> None:
    """JSON and YAML. `0` and `GPU-0a11` are one; `all` is several; another class is no GPU; NVIDIA's driver is asked."""
    assert read_cdi(tree.root, DRIVERS) == (INTEL, FIRST, SECOND)


def test_node_without_specs_has_none(tree: NodeTree) -> None:
    tree.remove("/etc")
    assert read_cdi(tree.root) == ()


@pytest.mark.parametrize(("node", "left"), [("/dev/example0", (INTEL, SECOND)), ("/dev/dri/renderD128", (FIRST, SECOND))])
def test_device_without_its_file_has_vanished(node: str, left: tuple[Gpu, ...], tree: NodeTree) -> None:
    tree.remove(node)
    assert read_cdi(tree.root, DRIVERS) == left


def test_spec_of_a_driver_that_is_not_asked_counts(tree: NodeTree) -> None:
    """And there too the device has vanished, until its file is there."""
    assert read_cdi(tree.root) == (INTEL, FIRST, SECOND)
    tree.write("/dev/nvidia0", "")
    dead = Gpu(kind="nvidia.com/gpu", uuid="GPU-dead0000-0000-4000-8000-000000000000")
    assert read_cdi(tree.root) == (INTEL, FIRST, SECOND, dead)


@pytest.mark.parametrize("name", ["0", "gpu0", "card1", "all"])
def test_position_is_no_name(name: str, tree: NodeTree) -> None:
    """IN-02: it would be another device after a GPU has come or gone."""
    tree.write("/etc/cdi/other.json", spec({name: ["/dev/example1"]}))
    assert f"other.com/gpu={name} of /etc/cdi/other.json has no UUID" in reason(tree)


def test_address_may_be_the_name(tree: NodeTree) -> None:
    tree.write("/etc/cdi/other.json", spec({"0000:0A:00.0": []}))
    assert Gpu(kind="other.com/gpu", pci_address="0000:0a:00.0") in read_cdi(tree.root, DRIVERS)  # type: ignore[operator]  # a tuple


def test_all_may_be_one(tree: NodeTree) -> None:
    """Then it has the same files, and is one more name of it."""
    tree.write("/etc/cdi/other.json", spec({"0": ["/dev/example0"], "GPU-1111": ["/dev/example0"], "all": ["/dev/example0"]}))
    assert read_cdi(tree.root, DRIVERS) == (INTEL, FIRST, SECOND, Gpu(kind="other.com/gpu", uuid="GPU-1111"))


def test_two_names_for_two_devices_in_one_cannot_be_told(tree: NodeTree) -> None:
    tree.write("/etc/cdi/other.json", spec({"GPU-1111": ["/dev/example0"], "GPU-2222": ["/dev/example0"]}))
    assert "is more than one device: GPU-1111, GPU-2222" in reason(tree)


def test_one_gpu_by_two_specs_cannot_be_told(tree: NodeTree) -> None:
    tree.write("/etc/cdi/other.json", spec({"GPU-0a11": []}))
    assert "and another device are both GPU-0a11" in reason(tree)


def test_later_folder_replaces_a_device_of_the_same_name(tree: NodeTree) -> None:
    tree.write("/var/run/cdi/example.json", spec({"GPU-0b22": ["/dev/not-there"]}, "example.com/gpu"))
    assert read_cdi(tree.root, DRIVERS) == (INTEL, FIRST)


def test_two_of_one_name_in_one_folder_cannot_be_told(tree: NodeTree) -> None:
    tree.write("/etc/cdi/second.json", spec({"GPU-0b22": []}, "example.com/gpu"))
    assert reason(tree).startswith("GPUs of CDI: cannot tell which example.com/gpu=GPU-0b22 is meant: /etc/cdi/example.json and ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/cdi/bad.json", ""),
        ("/etc/cdi/bad.json", "{"),
        ("/etc/cdi/bad.json", "[]"),
        ("/etc/cdi/bad.json", '{"cdiVersion": "0.6.0", "kind": "example.com/net"}'),
        ("/etc/cdi/bad.json", '{"cdiVersion": "0.6.0", "kind": "gpu", "devices": []}'),
        ("/etc/cdi/bad.json", '{"cdiVersion": "0.6.0", "kind": "a.b/gpu", "devices": [{"name": 0, "containerEdits": {}}]}'),
        ("/etc/cdi/bad.yml", "a: [\n"),
        ("/var/run/cdi/bad.yaml", ""),
        ("/var/run/cdi/bad.yaml", "kind: !!python/object:os.system x\n"),
    ],
)
def test_spec_that_cannot_be_read_is_named(path: str, text: str, tree: NodeTree) -> None:
    """Any of them may have GPUs in it."""
    tree.write(path, text)
    assert path in reason(tree)


@pytest.mark.parametrize("path", ["/etc/cdi/example.json", "/etc/cdi/intel.yaml", "/sys/class/drm/renderD128/device"])
def test_file_that_cannot_be_read_is_named(path: str, tree: NodeTree) -> None:
    tree.spoil(path)
    assert path in reason(tree)


def test_yaml_without_its_package_is_named(tree: NodeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not left out: its GPUs would be missing."""
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    assert "cannot read /etc/cdi/intel.yaml: the package 'pyyaml' is missing" in reason(tree)
