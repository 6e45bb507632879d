"""Limits as values: what they mean to the kernel, and what cannot mean anything."""

from __future__ import annotations

import math
from typing import Any

import pytest

from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.errors import InvalidArgument


def values(**fields: Any) -> list[tuple[str, str, str]]:
    return [(limit.controller, limit.file, limit.value) for limit in CgroupLimits(**fields)]


def test_each_limit_has_its_file() -> None:
    assert values(memory_max_bytes=1 << 20, pids_max=0, cpus=1.5) == [
        ("memory", "memory.max", "1048576"),
        ("pids", "pids.max", "0"),
        ("cpu", "cpu.max", "150000 100000"),
    ]


def test_what_is_not_given_is_left_as_it_is() -> None:
    assert values() == []
    assert values(pids_max=1) == [("pids", "pids.max", "1")]


@pytest.mark.parametrize("cpus", [0.01, 1, 64])
def test_least_and_more_cpus(cpus: float) -> None:
    """The kernel takes no quota below 1 ms."""
    assert values(cpus=cpus) == [("cpu", "cpu.max", f"{round(cpus * 100_000)} 100000")]


@pytest.mark.parametrize("name", ["memory_max_bytes", "pids_max"])
@pytest.mark.parametrize("value", [-1, 1.5, "1", True, 2**63])
def test_numbers_that_mean_nothing(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}: "):
        CgroupLimits(**{name: value})  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("cpus", [0, -1, 0.009, "1", True, math.nan, math.inf, 1e30])
def test_cpus_that_mean_nothing(cpus: object) -> None:
    with pytest.raises(InvalidArgument, match="cpus: "):
        CgroupLimits(cpus=cpus)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("name", ["memory_max_bytes", "pids_max", "cpus"])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_python_does_not_write_out_is_named_by_its_size(name: str, sign: int) -> None:
    """No OverflowError on the way to a float, no ValueError on the way to text."""
    with pytest.raises(InvalidArgument, match=f"^{name}: an integer of 16610 bits is not a number from 0"):
        CgroupLimits(**{name: sign * 10**5000})


def test_an_integer_of_64_bits_is_written_out() -> None:
    with pytest.raises(InvalidArgument, match="pids_max: 18446744073709551615 is not a number"):
        CgroupLimits(pids_max=2**64 - 1)


def test_too_many_cpus_are_told_the_most() -> None:
    with pytest.raises(InvalidArgument, match=r"^cpus: 1e\+30 is not a number from 0.01 to 92233720368547$"):
        CgroupLimits(cpus=1e30)
