"""What those are told of the node who do not see all."""

from __future__ import annotations

import pytest

from spurproc.agent.daemon.discretion import drain_view, problems_told
from spurproc.agent.store.drains import OPERATOR, Drain, DrainKind

_PROBLEMS = {
    "storage": "the state folder lies on tmpfs",
    "GPU GPU-a": "GPU-a is held back: attempt 7.1 has ended, and process 12 (python) has /dev/nvidia0 open",
    "attempt 7.1: Starting.prepare": "attempt 7.1 cannot go on yet: cannot write '/state/spool/7.1'",
    "attempt 8.1: Starting.prepare": "attempt 8.1 cannot go on yet: cannot write '/state/spool/8.1'",
    "of a later release": "attempt 9.1 is odd",
}


def test_who_sees_all_is_told_all() -> None:
    assert problems_told(_PROBLEMS, sees_all=True) == tuple(_PROBLEMS.values())


def test_others_are_told_what_concerns_the_node_and_of_nobody() -> None:
    """What is not known to be about the node alone may be about somebody."""
    assert problems_told(_PROBLEMS, sees_all=False) == (
        "the state folder lies on tmpfs",
        "GPU GPU-a is held back: something that is left of a job uses it",
        "an attempt cannot go on yet",
    )


@pytest.mark.parametrize(
    ("kind", "cause", "why", "told"),
    [
        (DrainKind.OPERATOR, OPERATOR, "a new disk", (OPERATOR, "a new disk")),
        (DrainKind.SYSTEM, "inventory", "the inventory has changed: CPUs 3 vanished", None),
        (DrainKind.SYSTEM, "epilog", "the epilog of attempt 7.1 failed: exited 1", ("epilog", "the epilog of an attempt failed")),
        (
            DrainKind.SYSTEM,
            "attempt 7.1",
            "nobody knows what attempt 7.1 holds",
            ("attempt", "nobody knows what an attempt holds"),
        ),
    ],
)
def test_of_a_drain(kind: DrainKind, cause: str, why: str, told: tuple[str, str] | None) -> None:
    drain = Drain(kind=kind, cause=cause, why=why, since=1.0)
    full, discreet = drain_view(drain, sees_all=True), drain_view(drain, sees_all=False)
    assert (full.cause, full.why) == (cause, why)
    assert (discreet.cause, discreet.why) == (told or (cause, why))
