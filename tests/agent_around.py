"""What attempts share, without a node: what a test gives it, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.log import open_log
from spurproc.agent.resources.table import ResourceTable

_MISSING = ("configuration", "state_dir", "database", "mark", "link", "blocking")


def surroundings(**given: Any) -> Surroundings:
    """Of a node with two CPUs, whose folder is owned. What is not given is missing, and may not be asked for."""
    parts: dict[str, Any] = {
        **dict.fromkeys(_MISSING),
        "ownership": SimpleNamespace(require=lambda: None),
        "resources": ResourceTable(Inventory(cpus=(0, 1), memory_bytes=1)),
        "log": open_log("error", "text"),
    }
    return Surroundings(**parts | given)
