"""Whether jobs can be held to their memory is told by what the folder of all steps has, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc.agent.node.memory_limit import memory_warning
from spurproc.core.cgroup.root import CgroupRoot


def test_without_a_cgroup_nobody_is_held_to_anything() -> None:
    assert memory_warning(None).endswith(
        "no job is held to what it asks for: there is no cgroup2 folder that the agent may write"
    )


@pytest.mark.needs_cgroup_v2
def test_what_the_folder_of_the_steps_has_counts(cgroup_root: Path) -> None:
    """As it is on this machine; and one that cannot be read holds nobody."""
    root = CgroupRoot(path=str(cgroup_root / "ours"))
    root.prepare()
    has_it = "memory" in Path(root.steps, "cgroup.controllers").read_text().split()
    assert (memory_warning(root) == "") == has_it
    if not has_it:
        assert memory_warning(root).endswith(f"{root.steps} has no memory controller")
    Path(root.steps).rmdir()
    assert f"'{root.steps}'" in memory_warning(root)
