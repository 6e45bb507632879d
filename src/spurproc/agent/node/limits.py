"""Whether jobs can be held to what they ask for: a sentence for each controller that holds none, for who submits one."""

from __future__ import annotations

import os

from spurproc.core.cgroup.folder import open_folder, read_text
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.errors import SpurprocError

__all__ = ["not_enforced"]

_INSTEAD = {
    "memory": "memory is only counted here, and no job is held to what it asks for",
    "pids": "no job is held to a number of processes here",
    "cpu": "jobs are only pinned to their CPUs here, which they can undo",
}
"""By controller: what is done without it."""


def not_enforced(root: CgroupRoot | None) -> dict[str, str]:
    """By controller, why no step below `root` is held by it; without those that hold each. Looks at two files, does not block.

    Source: admin-guide/cgroup-v2.rst, "Controllers": what the folder of all steps does not have, none of them can be given.
    """
    if root is None:
        return _all_because("there is no cgroup2 folder that the agent may write")
    try:
        folder_fd = open_folder(root.steps)
        try:
            controllers = read_text(folder_fd, "cgroup.controllers").decode().split()
        finally:
            os.close(folder_fd)
    except SpurprocError as error:
        return _all_because(str(error))
    return {
        controller: f"{instead}: {root.steps} has no {controller} controller"
        for controller, instead in _INSTEAD.items()
        if controller not in controllers
    }


def _all_because(why: str) -> dict[str, str]:
    return {controller: f"{instead}: {why}" for controller, instead in _INSTEAD.items()}
