"""Environments as bytes, and the paths that PATH gives."""

from __future__ import annotations

from typing import Any

import pytest

from spurproc.core.spawn.environment import env_entries, exec_candidates
from spurproc.errors import InvalidArgument


def test_mapping_and_raw_entries() -> None:
    assert env_entries({"A": "\udcff", "B": ""}) == [b"A=\xff", b"B="]
    assert env_entries({b"A": b"\xff"}) == [b"A=\xff"]
    assert env_entries([b"A=1", b"A=2", b"", b"=x"]) == [b"A=1", b"A=2", b"", b"=x"]
    assert env_entries({}) == env_entries([]) == []


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": 1}, {1: "x"}, "A=1", b"A=1", ["A=1"]])
def test_refused(env: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^env: "):
        env_entries(env)


@pytest.mark.parametrize(
    ("argv0", "entries", "candidates"),
    [
        (b"/bin/ls", [b"PATH=/x"], [b"/bin/ls"]),
        (b"./ls", [b"PATH=/x"], [b"./ls"]),
        (b"ls", [b"PATH=/x:/y/"], [b"/x/ls", b"/y/ls"]),
        (b"ls", [b"PATH=/x", b"PATH=/y"], [b"/x/ls"]),
        (b"ls", [b"PATH=:/x:"], [b"ls", b"/x/ls", b"ls"]),
        (b"ls", [b"PATH=/"], [b"/ls"]),
        (b"ls", [b"XPATH=/x"], [b"/bin/ls", b"/usr/bin/ls"]),
    ],
)
def test_candidates(argv0: bytes, entries: list[bytes], candidates: list[bytes]) -> None:
    """execvp(3): the first PATH of the job, an empty folder is the cwd; a name with '/' is not searched."""
    assert exec_candidates(argv0, entries) == candidates
