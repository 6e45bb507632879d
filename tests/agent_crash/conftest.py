"""What the matrix shares with the end-to-end tests: the folder in which cgroups are made."""

from __future__ import annotations

import pytest

from tests import cgroup_folder


@pytest.fixture(autouse=True, scope="session")
def cgroup_home() -> None:
    """The folder in which the product makes its root; removed at the end of the session."""
    if cgroup_folder.base() is not None:
        cgroup_folder.session_folder().mkdir(exist_ok=True)
