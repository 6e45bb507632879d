"""What the tests on real processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from spurproc.core.cgroup.cgroup import Cgroup


@pytest.fixture
def cgroup(cgroup_root: Path) -> Iterator[Cgroup]:
    """The test's own cgroup, held."""
    with Cgroup.open(cgroup_root) as held:
        yield held


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user may enter and write to: not below the folder of all runs of pytest, which each that begins shuts."""
    with TemporaryDirectory(prefix="spurproc-open-") as name:
        Path(name).chmod(0o777)
        yield Path(name)
