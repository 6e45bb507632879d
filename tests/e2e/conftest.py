"""What the end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import cgroup_folder
from tests.steps import Steps


@pytest.fixture(autouse=True, scope="session")
def cgroup_home() -> None:
    """The folder in which the product makes its root, SPURPROC_CGROUP_ROOT; removed at the end of the session."""
    if cgroup_folder.base() is not None:
        cgroup_folder.session_folder().mkdir(exist_ok=True)


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """A state folder for supervised steps; they and their host are gone when the test is over."""
    made = Steps(tmp_path / "state")
    yield made
    made.end_all()
