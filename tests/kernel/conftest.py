"""What the tests on real processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.core.cgroup.cgroup import Cgroup


@pytest.fixture
def cgroup(cgroup_root: Path) -> Iterator[Cgroup]:
    """The test's own cgroup, held."""
    with Cgroup.open(cgroup_root) as held:
        yield held
