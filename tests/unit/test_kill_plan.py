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


_ASKS = ((signal.SIGINT, 2.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, None))


@pytest.mark.parametrize(
    ("steps", "elapsed_s", "left"),
    [
        (_ASKS, 0.0, _ASKS),
        (_ASKS, -5.0, _ASKS),
        (_ASKS, 1.5, ((signal.SIGINT, 0.5), *_ASKS[1:])),
        (_ASKS, 2.0, _ASKS[1:]),
        (_ASKS, 4.0, ((signal.SIGTERM, 1.0), _ASKS[2])),
        (_ASKS, 1e9, _ASKS[2:]),
        (((signal.SIGTERM, 3.0),), 5.0, ((signal.SIGTERM, 0.0),)),
        (((signal.SIGTERM, 0.0), (signal.SIGKILL, None)), 0.0, ((signal.SIGTERM, 0.0), (signal.SIGKILL, None))),
    ],
)
def test_what_is_left_of_a_plan(steps: Any, elapsed_s: float, left: Any) -> None:
    """Its SIGKILL comes no later than it would have."""
    assert KillPlan(steps=steps).after(elapsed_s).steps == left


@pytest.mark.parametrize(
    ("steps", "after_s"), [(_ASKS, 5.0), (_ASKS[2:], 0.0), (_ASKS[:1], float("inf")), (((15, None),), float("inf"))]
)
def test_when_a_plan_kills(steps: Any, after_s: float) -> None:
    assert KillPlan(steps=steps).kills_after_s == after_s


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
