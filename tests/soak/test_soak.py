"""Random histories of jobs, kills, restarts, clock steps, a full disk and strangers: none breaks a promise.

A run of all suites plays a short one of a fixed seed. `make soak` plays fresh ones, for SPURPROC_TEST_SOAK_S seconds, and says of
each by which seed it can be had again: `make soak SEED=7`. The seed says what is done, not how quick who is at it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.history import History
from tests.soak.node import Node, gates_closed, processes
from tests.soak.verdict import faults

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]

SECONDS = float(os.environ.get("SPURPROC_TEST_SOAK_S", "0"))
SEED = os.environ.get("SPURPROC_TEST_SOAK_SEED", "")
_SHORT, _LONG = 50, 150
_FIXED = 7


def _seeds() -> Iterator[int]:
    if SEED or not SECONDS:
        yield int(SEED or _FIXED)
        return
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        yield secrets.randbits(32)


@pytest.mark.own_pid_namespace(mount=True, timeout_s=2 * SECONDS + 900)
def test_nothing_that_happens_breaks_a_promise(tmp_path: Path) -> None:
    """No job twice, no hook twice, no end lost, no resource twice, no stranger signalled, no orphan."""
    for number, seed in enumerate(_seeds()):
        print(f"seed {seed}", flush=True)
        wrong, said = _played(tmp_path / f"node-{number}", seed, _LONG if SECONDS else _SHORT)
        assert not wrong, "\n".join([f"seed {seed}:", *wrong, *said])


def _played(path: Path, seed: int, count: int) -> tuple[list[str], list[str]]:
    """What is wrong after that many things have happened; and all of them."""
    before = processes()
    with Node(path) as node:
        history = History(node, seed)
        with gates_closed(history.jobs):
            try:
                for _ in range(count):
                    history.go_on()
                history.settle()
                wrong = list(faults(history))
            except (AssertionError, OSError) as error:
                wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            history.said.append(node.agent.log.read_text()[-30000:])
    left = {pid: command for pid, command in processes().items() if pid not in before}
    return [*wrong, *(f"left: process {pid}, {command}" for pid, command in left.items())], history.said
