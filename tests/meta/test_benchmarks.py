"""The table of targets is complete, and docs/benchmarks.md is what its raw results say."""

from __future__ import annotations

import re

import pytest

from benchmarks.__main__ import DOCUMENTS, NOUNS, RUNS
from benchmarks.report import document
from benchmarks.results import Results
from benchmarks.target import Relation
from benchmarks.targets import TARGETS
from tests.meta.repository import ROOT

AT_MOST, AT_LEAST, ADDED, VALUE, LEAST = Relation.TIMES, Relation.FASTER, Relation.ADDED, Relation.VALUE, Relation.LEAST
PROMISED = {
    "liveness of a kept `Pidfd`": {(AT_MOST, 2), (AT_LEAST, 20)},
    "liveness of a stored identity": {(AT_MOST, 2.5), (AT_LEAST, 8)},
    "`liveness_many`, 1,000 stored identities; 1,000 cgroups": {(AT_MOST, 1.25)},
    "signal_tree of 1,000 members, signal 0 and SIGTERM": {(AT_MOST, 1.3), (AT_LEAST, 10)},
    "spawn detached, plain: 4 GiB heap against 10 MiB": {(AT_MOST, 1.5), (AT_LEAST, 100), (AT_MOST, 2)},
    "spawn with user, limits, cgroup (through the trampoline)": {(AT_MOST, 3)},
    "exit noticed by a non-parent": {(AT_MOST, 2), (VALUE, 0)},
    "`import spurproc`": {(ADDED, 30), (VALUE, 0)},
    "recorder": {(VALUE, 64), (ADDED, 300)},
    'run(["true"])': {(AT_MOST, 3)},
    "memory of a supervised step, on Python 3.11": {(VALUE, 1024)},
    "launch of a supervised step, everything durable": {(VALUE, 4)},
    "end of a supervised step": {(VALUE, 1000), (ADDED, 1000)},
    "adoption of live steps": {(VALUE, 200), (AT_MOST, 1.25)},
    "idle supervisors and their host": {(VALUE, 0)},
    "durable writes of a step": {(VALUE, 3), (VALUE, 1)},
    "start to serving with 1,000 live steps": {(VALUE, 1000), (AT_MOST, 1.25)},
    "submit to leader exec'd, ten jobs a second": {(VALUE, 20)},
    "sustained `true` jobs, every record durable, no hooks": {(LEAST, 50)},
    "memory of the agent: 45 MiB, and 10 KiB a job": {(VALUE, 45 * 1024)},
    "cancel of a 1,000-process tree to proven empty, SIGKILL alone": {(AT_MOST, 1.3)},
    "end of a job to its report offered, no hooks": {(VALUE, 15)},
}
"""What was promised of each, times in the unit of the figures. A limit is not moved to where a figure fell."""


def test_every_promise_is_a_target() -> None:
    """None is left out, and none has another limit."""
    assert {target.what: {(bound.relation, bound.limit) for bound in target.bounds} for target in TARGETS} == PROMISED


def test_every_benchmark_is_run() -> None:
    """`make bench` runs each bench_<noun>.py, and each has a target."""
    files = {path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*.py")}
    assert files == set(NOUNS) == {target.bench for target in TARGETS}


@pytest.mark.parametrize("run", RUNS)
def test_document_is_made_from_its_results(run: str) -> None:
    """Rendered again it is the same: no figure in it was written by hand."""
    text = DOCUMENTS[run].read_text(encoding="utf-8")
    found = re.search(r"`(benchmarks/results/[^`]+)`", text)
    assert found is not None
    assert document(Results.read(ROOT / found[1]), found[1]) == text


@pytest.mark.parametrize("run", RUNS)
def test_document_has_a_verdict_on_every_target(run: str) -> None:
    """A line each, that ends OK or MISS: it comes from a machine that has all that is compared with."""
    lines = DOCUMENTS[run].read_text(encoding="utf-8").splitlines()
    for target in (target for target in TARGETS if target.bench in RUNS[run]):
        assert [line for line in lines if line.startswith(f"| {target.what} |") and re.search(r"\| (OK|MISS) \|$", line)]
