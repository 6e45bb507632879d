"""The steps of the boot before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.steps import Steps
from tests.vm.reboot.scene import STATE


@pytest.fixture
def steps() -> Iterator[Steps]:
    """Their hosts of this boot are ended with the test."""
    made = Steps(STATE)
    yield made
    made.end_all()
