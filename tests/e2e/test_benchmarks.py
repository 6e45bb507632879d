"""The benchmarks still run. That is all: with so few turns their figures mean nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.__main__ import NOUNS
from benchmarks.parts import is_part
from benchmarks.results import Results
from benchmarks.targets import TARGETS
from tests.meta.repository import ROOT

OPTIONAL = ("tini", "s6-supervise", "conmon", "pidfd package")
"""Peers that nothing installs for the tests."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, str]:
    """The results and the output of one run of all."""
    path = tmp_path_factory.mktemp("benchmarks") / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(path), *NOUNS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Results.read(path), done.stdout


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfs_handle")
@pytest.mark.needs_facility("pidfd_exit_info")
def test_all_that_the_targets_name_is_measured(quick: tuple[Results, str]) -> None:
    """A figure that a target names is there, and has values unless it is of a peer that is not."""
    results, _ = quick
    for target in TARGETS:
        figures = results.benches[target.bench]
        compared = {name for bound in target.bounds for name in (bound.ours, bound.theirs) if name}
        assert {*compared, *target.also, *target.floor} - figures.keys() == set()
        assert [call for call in target.parts if not any(is_part(call, name) for name in figures)] == []
        assert [one for one in figures.values() if one.missing and not one.name.startswith(OPTIONAL)] == []
        assert all(one.samples for one in figures.values() if not one.missing)


@pytest.mark.needs_facility("pidfd_exit_info")
def test_table_has_a_line_for_each_target(quick: tuple[Results, str]) -> None:
    _, printed = quick
    assert [line.split(" | ")[0] for line in printed.splitlines() if line.startswith("| ")][1:] == [
        f"| {target.what}" for target in TARGETS
    ]
