"""Where the agent can be struck: effects of its table, bodies of its transactions, and acts by their names.

An effect that the table gains, and a body that a store or the queue gains, is one more place by itself: `scenes.py` has to say in
which scene it is reached, else a test fails.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from spurproc.agent.attempts.effect import Effect
from tests.crash.rows import LAUNCHER_ACTS

STORES = (
    "store.attempts",
    "store.drains",
    "store.node_values",
    "controller.local.queue",
    "controller.local.ending",
    "controller.local.found",
    "controller.local.history",
    "controller.local.outdated",
)
"""Modules of spurproc.agent whose public functions are bodies of transactions."""

READS = frozenset(
    {
        "store.attempts.find",
        "store.attempts.load_all",
        "store.attempts.spec_of",
        "store.drains.drains",
        "store.node_values.read_reports",
        "store.node_values.read_value",
        "controller.local.queue.dispatched_spec",
        "controller.local.queue.find_job",
        "controller.local.queue.head",
        "controller.local.queue.last_number",
        "controller.local.queue.place_of",
        "controller.local.queue.spec_of",
        "controller.local.found.jobs_missing",
        "controller.local.history.cancels",
        "controller.local.history.dispatched",
        "controller.local.history.jobs",
        "controller.local.ending.attempts_of",
        "controller.local.ending.find_attempt",
    }
)
"""Those of them that write nothing."""

ACTS = (
    "attempts.dispatch:Attempts.take_on",
    "attempts.dispatch:Attempts.begin",
    "attempts.fencing.fence_lost",
    "attempts.hooks._launched",
    "attempts.hooks._emptied",
    "attempts.reconcile.look",
    "attempts.claims.restore",
    "attempts.claims.displace",
    "attempts.step.launch_step",
    "attempts.step.remove_folders",
    "attempts.step.remove_step",
    "jobs.scratch.make_scratch",
    "jobs.spool.write_script",
    "resources.table:ResourceTable.allocate",
    "resources.table:ResourceTable.apply_inventory",
    "resources.table:ResourceTable.release",
    "resources.table:ResourceTable.restore",
    "store.mark:MarkFile.raise_to",
)
"""Of spurproc.agent: the module, the class where there is one, and the function."""

_NO_AGENTS = ("client.withdrawal.withdraw_unsent", "client.withdrawal.withdrawn", "client.step:Step.start")
"""Of launches that fail, or that somebody else starts."""
OF_A_LAUNCH = tuple(f"client:{name}" for name, row in LAUNCHER_ACTS.items() if row <= 5 and name not in _NO_AGENTS)
"""What the client does on one of the agent's threads."""

CUT_SHORT = frozenset(
    {
        ("client:client.launch._publish", "after"),
        ("client:client.launch._renamed", "after"),
        ("client:client.launch._send", "before"),
        ("client:client.host_link:HostLink.send", "before"),
    }
)
"""Behind the name of a step, and before anybody has it in hand who could be told to start it."""


def bodies() -> Iterator[str]:
    """Each public function of a store that takes a connection."""
    for where in STORES:
        module = importlib.import_module(f"spurproc.agent.{where}")
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found) and next(iter(inspect.signature(found).parameters)) == "connection":
                yield f"{where}.{name}"


def commits() -> tuple[str, ...]:
    """Those that write: `before` is when all is done and nothing is committed, `after` when it is and nobody has been told."""
    return tuple(name for name in bodies() if name not in READS)


def all_places() -> set[str]:
    """Each of them has a cell before it and one after it."""
    return {*(effect.name for effect in Effect), *commits(), *ACTS, *OF_A_LAUNCH}


def holder_of(place: str) -> tuple[ModuleType | type[Any], str]:
    """Where the function of a commit or an act stands, and its name there. Raises AttributeError and the like for none."""
    client = place.startswith("client:")
    where, _, function = place.removeprefix("client:").rpartition(".")
    module, _, owner = where.partition(":")
    found: Any = importlib.import_module(f"spurproc.{module}" if client else f"spurproc.agent.{module}")
    holder = getattr(found, owner) if owner else found
    getattr(holder, function)
    return holder, function
