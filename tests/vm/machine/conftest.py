"""What the tests of units share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import units


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of a user with a manager of its own."""
    with units.users_folder() as folder:
        yield folder
