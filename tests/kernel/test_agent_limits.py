"""Whether jobs can be held to what they ask for is told by what the folder of all steps has, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from spurproc.agent.node.limits import not_enforced
from spurproc.core.cgroup.root import CgroupRoot

_ALL = ("memory", "pids", "cpu")


def test_without_a_cgroup_nobody_is_held_to_anything() -> None:
    told = not_enforced(None)
    assert tuple(told) == _ALL
    assert all(why.endswith(": there is no cgroup2 folder that the agent may write") for why in told.values())


@pytest.mark.needs_cgroup_v2
def test_what_the_folder_of_the_steps_has_counts(cgroup_root: Path) -> None:
    """As it is on this machine; and one that cannot be read holds nobody."""
    root = CgroupRoot(path=str(cgroup_root / "ours"))
    root.prepare()
    there = Path(root.steps, "cgroup.controllers").read_text().split()
    told = not_enforced(root)
    assert tuple(told) == tuple(one for one in _ALL if one not in there)
    assert all(why.endswith(f"{root.steps} has no {one} controller") for one, why in told.items())
    Path(root.steps).rmdir()
    assert all(f"'{root.steps}'" in why for why in not_enforced(root).values())
