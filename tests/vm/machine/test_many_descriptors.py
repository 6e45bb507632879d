"""A limit of a thousand million descriptors, which takes CAP_SYS_RESOURCE and a system that allows as many."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.core.facilities import Facilities
from tests import seccomp
from tests.kernel.test_spawn_conditions import median_s
from tests.rungs import probe_again
from tests.spawning import DETACHED, ROUTES, in_child, output_of

_NR_OPEN = Path("/proc/sys/fs/nr_open")
_BILLION = 1_073_741_816  # the most that Linux allows
_CLOSE_RANGE = 436


@pytest.fixture(autouse=True)
def _many_allowed() -> Iterator[None]:
    """This machine is ours alone."""
    before = _NR_OPEN.read_text()
    _NR_OPEN.write_text(str(_BILLION))
    yield
    _NR_OPEN.write_text(before)


@pytest.mark.parametrize("number", [None, errno.EPERM, errno.ENOSYS], ids=["close_range", "EPERM", "ENOSYS"])
def test_spawn_does_not_count_to_the_limit(number: int | None) -> None:
    """With close_range and without it: not much longer than under an ordinary limit, and nothing leaks."""

    def body() -> None:
        if number is not None:
            seccomp.refuse(_CLOSE_RANGE, number)
        probe_again()
        assert Facilities.current().close_range is (number is None)
        ordinary_s = median_s(9)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_BILLION, _BILLION))
        assert median_s(9) < ordinary_s * 5  # counting would take minutes
        for fields in (*ROUTES, DETACHED):
            output, _ = output_of(["/bin/ls", "/proc/self/fd"], **fields)
            assert output.split() == [b"0", b"1", b"2", b"3"]

    in_child(body)
