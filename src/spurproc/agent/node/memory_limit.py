"""Whether jobs can be held to the memory that they ask for: a sentence where they cannot, for who submits one."""

from __future__ import annotations

import os

from spurproc.core.cgroup.folder import open_folder, read_text
from spurproc.core.cgroup.root import CgroupRoot
from spurproc.errors import SpurprocError

__all__ = ["memory_warning"]

_COUNTED = "memory is only counted here, and no job is held to what it asks for"


def memory_warning(root: CgroupRoot | None) -> str:
    """Why no step below `root` has its memory limited; empty where each has. Looks at two files, and does not block.

    Source: admin-guide/cgroup-v2.rst, "Controllers": what the folder of all steps does not have, none of them can be given.
    """
    if root is None:
        return f"{_COUNTED}: there is no cgroup2 folder that the agent may write"
    try:
        folder_fd = open_folder(root.steps)
        try:
            controllers = read_text(folder_fd, "cgroup.controllers").split()
        finally:
            os.close(folder_fd)
    except SpurprocError as error:
        return f"{_COUNTED}: {error}"
    return "" if b"memory" in controllers else f"{_COUNTED}: {root.steps} has no memory controller"
