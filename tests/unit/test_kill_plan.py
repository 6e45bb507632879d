"""Kill plans that mean something, and trees that have something to reach."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.termination import KillPlan, Proof, TerminationReport
from spurproc.errors import InvalidArgument


def test_default_asks_first_and_then_kills_without_end() -> None:
    assert KillPlan.default().steps == ((signal.SIGTERM, 10.0), (signal.SIGKILL, None))


@pytest.mark.parametrize(
    "steps",
    [
        (),
        ((signal.SIGTERM, -1.0),),
        ((signal.SIGTERM, float("nan")),),
        ((0, 1.0),),
        ((65, 1.0),),
        ((-15, 1.0),),
        ((signal.SIGTERM, None), (signal.SIGKILL, None)),
    ],
)
def test_plan_without_meaning_is_refused(steps: Any) -> None:
    with pytest.raises(InvalidArgument):
        KillPlan(steps=steps)


def test_tree_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        ProcessTree()


@pytest.mark.parametrize(
    ("proof", "empty"),
    [(Proof.CGROUP_EMPTY, True), (Proof.NO_DESCENDANTS, True), (Proof.NONE_FOUND, False), (Proof.NOT_EMPTY, False)],
)
def test_only_a_proof_is_empty(proof: Proof, empty: bool) -> None:
    tree: Any = ProcessTree.containment
    assert TerminationReport(containment=tree, proof=proof, steps=(), survivors=()).empty is empty
