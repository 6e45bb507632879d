"""CPUs, memory and generic resources of whole trees of files: what jobs may have, or why that cannot be told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spurproc.agent.inventory.cpus import parse_cpu_list, read_cpus
from spurproc.agent.inventory.generic import read_generic
from spurproc.agent.inventory.memory import read_memory
from spurproc.agent.inventory.node_files import Unreadable
from spurproc.agent.inventory.reading import Failed
from tests.node_tree import NodeTree

EVERY = frozenset(range(64))
V1_MEMORY = "/sys/fs/cgroup/memory"
SLICE = "/sys/fs/cgroup/system.slice"


def reason(reading: object) -> str:
    assert isinstance(reading, Failed), reading
    return reading.reason


def test_cpus_of_this_machine_can_be_told() -> None:
    cpus = read_cpus("/", os.sched_getaffinity(0))
    assert cpus == tuple(sorted(os.sched_getaffinity(0)))


def test_memory_of_this_machine_can_be_told() -> None:
    memory_bytes = read_memory("/")
    assert isinstance(memory_bytes, int)
    assert 0 < memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("name", "cpus", "memory_bytes"),
    [
        ("captured-v1", (0, 1), 24684084 * 1024),
        ("nvidia", (1, 2), 32 << 30),
        ("amd", (0, 1, 2, 3), 16 << 30),
        ("cdi", (0, 1, 2, 3), 8145280 * 1024),
    ],
)
def test_trees(name: str, cpus: tuple[int, ...], memory_bytes: int, tmp_path: Path) -> None:
    tree = NodeTree(name, tmp_path)
    assert read_cpus(tree.root, EVERY) == cpus
    assert read_memory(tree.root) == memory_bytes


def test_cpus_are_those_of_the_cpuset_and_of_the_affinity(tmp_path: Path) -> None:
    """IN-09: a cpuset of 1-2 on a machine of 20. SP-21: and `taskset -c 2,3`."""
    tree = NodeTree("nvidia", tmp_path)
    assert read_cpus(tree.root, {2, 3}) == (2,)
    assert reason(read_cpus(tree.root, {3})) == "CPUs: none is online, in our cpuset and in our affinity"


def test_cpu_that_is_offline_is_none(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write("/sys/devices/system/cpu/online", "0,2-19\n")
    assert read_cpus(tree.root, EVERY) == (2,)


def test_cpuset_is_that_of_the_nearest_cgroup_that_has_one(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write(f"{SLICE}/spurd.service/cpuset.cpus.effective", "2\n")
    assert read_cpus(tree.root, EVERY) == (2,)
    tree.remove(f"{SLICE}/spurd.service/cpuset.cpus.effective")
    tree.remove(f"{SLICE}/cpuset.cpus.effective")
    assert read_cpus(tree.root, EVERY) == tuple(range(20))


def test_cpuset_of_version_1(tmp_path: Path) -> None:
    """An older kernel has only what is set."""
    tree = NodeTree("captured-v1", tmp_path)
    tree.write("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "1\n")
    assert read_cpus(tree.root, EVERY) == (1,)
    tree.remove("/sys/fs/cgroup/cpuset/cpuset.effective_cpus")
    tree.write("/sys/fs/cgroup/cpuset/cpuset.cpus", "0\n")
    assert read_cpus(tree.root, EVERY) == (0,)


def test_cgroup_seen_through_a_bind_mount(tmp_path: Path) -> None:
    """In a container without a cgroup namespace the mount shows a part of the hierarchy, and /proc names all of it."""
    tree = NodeTree("nvidia", tmp_path)
    tree.replace("/proc/self/mountinfo", " / /sys/fs/cgroup ", " /system.slice /sys/fs/cgroup/system.slice ")
    assert read_cpus(tree.root, EVERY) == (1, 2)
    assert read_memory(tree.root) == 32 << 30


def test_cgroup_outside_of_what_is_mounted_cannot_be_told(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write("/proc/self/cgroup", "0::/../other\n")
    tree.replace("/proc/self/mountinfo", " / /sys/fs/cgroup ", " /system.slice /sys/fs/cgroup ")
    for reading in (read_cpus(tree.root, EVERY), read_memory(tree.root)):
        assert "our own cgroup '/../other' is not below /sys/fs/cgroup" in reason(reading)


def test_without_cgroups_nothing_is_limited(tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write("/proc/self/mountinfo", "")
    assert read_cpus(tree.root, EVERY) == tuple(range(20))
    assert read_memory(tree.root) == 65674440 * 1024


@pytest.mark.parametrize("text", ["", "\n", "a", "1-", "-1", "3-1", "0-99999", "0--2", "1,,2", "\u0661"])
def test_cpus_that_cannot_be_read_are_not_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        parse_cpu_list(text, "a file")
    tree = NodeTree("nvidia", tmp_path)
    tree.write(f"{SLICE}/cpuset.cpus.effective", text)
    assert reason(read_cpus(tree.root, EVERY)).startswith(f"CPUs: cannot read {SLICE}/cpuset.cpus.effective: ")


@pytest.mark.parametrize("path", ["/sys/devices/system/cpu/online", "/proc/self/cgroup", "/proc/self/mountinfo"])
@pytest.mark.parametrize("spoiled", [True, False])
def test_file_of_cpus_that_cannot_be_read_is_named(path: str, spoiled: bool, tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    (tree.spoil if spoiled else tree.remove)(path)
    why = "Is a directory" if spoiled else "No such file or directory"
    assert reason(read_cpus(tree.root, EVERY)) == f"CPUs: cannot read {path}: {why}"


@pytest.mark.parametrize(
    "total", ["", "MemTotal:\n", "MemTotal:  kB\n", "MemTotal: 0 kB\n", "MemTotal: -8 kB\n", "MemTotal: 1e3 kB\n"]
)
def test_blank_zero_or_negative_memory_is_unknown(total: str, tmp_path: Path) -> None:
    """IN-11: as some containers show it."""
    tree = NodeTree("nvidia", tmp_path)
    tree.write("/proc/meminfo", total + "MemFree: 100 kB\n")
    assert reason(read_memory(tree.root)) == "memory: cannot read /proc/meminfo: MemTotal is not a number above 0"


@pytest.mark.parametrize("limit", ["", "0", "-1", "12 kB", "many", "9" * 20])
def test_limit_that_means_nothing_is_unknown(limit: str, tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write(f"{SLICE}/memory.max", limit + "\n")
    assert reason(read_memory(tree.root)).startswith(f"memory: cannot read {SLICE}/memory.max: ")


@pytest.mark.parametrize("level", ["", "/system.slice", "/system.slice/spurd.service"])
def test_the_smallest_limit_above_us_acts(level: str, tmp_path: Path) -> None:
    tree = NodeTree("nvidia", tmp_path)
    tree.write(f"/sys/fs/cgroup{level}/memory.max", "1073741824\n")
    assert read_memory(tree.root) == 1 << 30


@pytest.mark.parametrize("level", ["", "/runner", "/runner/one"])
def test_the_smallest_limit_of_version_1_acts(level: str, tmp_path: Path) -> None:
    tree = NodeTree("captured-v1", tmp_path)
    tree.write(f"{V1_MEMORY}{level}/memory.limit_in_bytes", "1073741824\n")
    assert read_memory(tree.root) == 1 << 30


def test_memory_is_unknown_where_a_limit_cannot_be_read_or_our_cgroup_is_gone(tmp_path: Path) -> None:
    tree = NodeTree("captured-v1", tmp_path)
    tree.spoil(f"{V1_MEMORY}/runner/memory.limit_in_bytes")
    assert "cannot read /sys/fs/cgroup/memory/runner/memory.limit_in_bytes: Is a directory" in reason(read_memory(tree.root))
    tree.remove(f"{V1_MEMORY}/runner")
    assert "our own cgroup /sys/fs/cgroup/memory/runner/one is not there" in reason(read_memory(tree.root))


def test_generic_resources_are_those_that_are_configured() -> None:
    assert read_generic({"license": 2, "port": 0}) == {"license": 2}
    assert read_generic({}) == {}
    assert reason(read_generic({"license": -1})).startswith("generic resources: generic: license: -1 is not a number")
    assert "is no name" in reason(read_generic({"a b": 1}))
