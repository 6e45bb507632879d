"""A cgroup root of this run's own, so that it shares nothing with what else runs on the machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import ROOT_VARIABLE, find_cgroup_root

NONE_HERE = "no cgroup2 folder here that this user may write"
_REMOVE_TIMEOUT_S = 30.0


@contextlib.contextmanager
def cgroup_home() -> Iterator[None]:
    """Make it, let everything of ours use it, and remove it with all that is in it. Does nothing where none can be made."""
    found = find_cgroup_root()
    if found is None:
        yield
        return
    before = os.environ.get(ROOT_VARIABLE)
    with Cgroup.create(f"{os.path.dirname(found.path)}/spurproc-bench-{os.getpid()}") as home:
        os.environ[ROOT_VARIABLE] = home.path
        try:
            yield
        finally:
            os.environ.pop(ROOT_VARIABLE) if before is None else os.environ.update({ROOT_VARIABLE: before})
            home.kill()
            home.remove(_REMOVE_TIMEOUT_S)


@contextlib.contextmanager
def fresh_cgroup(name: str) -> Iterator[Cgroup | None]:
    """A cgroup in the root, killed and removed afterwards; None where there is no root."""
    root = find_cgroup_root()
    if root is None:
        yield None
        return
    with Cgroup.create(f"{root.steps}/{name}-{os.getpid()}") as cgroup:
        try:
            yield cgroup
        finally:
            cgroup.kill()
            cgroup.remove(_REMOVE_TIMEOUT_S)
