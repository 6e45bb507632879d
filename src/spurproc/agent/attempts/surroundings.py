"""What all attempts of a node share: its folders, its store, its resources, and the threads that may block for them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spurproc.agent import boot_clock
from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.controller.link import ControllerLink
from spurproc.agent.node.ownership import Ownership
from spurproc.agent.node.state_dir import StateDir
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.store.attempt_row import CancelIntent
from spurproc.agent.store.database import Database
from spurproc.agent.store.drains import Drain
from spurproc.agent.store.mark import MarkFile
from spurproc.core.recorded.run import RecordedRun
from spurproc.proto.attempt_id import AttemptId

__all__ = ["Surroundings"]


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """Borrows all of it. `log` is a structlog logger."""

    configuration: Configuration
    state_dir: StateDir
    ownership: Ownership
    database: Database
    mark: MarkFile
    """Beside the database."""
    resources: ResourceTable
    link: ControllerLink
    blocking: Blocking
    log: Any
    drains: tuple[Drain, ...] = ()
    """Those that stand, as the store has them."""
    problems: dict[str, str] = field(default_factory=dict)
    """What somebody should be told of, by what it is about."""
    drains_changed: Callable[[], None] = lambda: None
    listeners: list[Callable[[AttemptId], None]] = field(default_factory=list)
    """Told of each attempt that has moved on, once that is durable."""
    hooks: dict[str, RecordedRun] = field(default_factory=dict)
    """Those that run, by the name of their folder: held, so that they can be ended where that was removed."""
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when resources were given back."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last of them was."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the controller answers."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was found that the state folder is not ours any more."""
    job_limits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Limits that the agent has changed for itself, as jobs and hooks get them all the same."""
    inventory_root: str = "/"
    """Below which the files of this node stand."""
    clock: Callable[[], float] = time.time
    reports: int = 0
    """Of how many attempts the store says that their report was taken."""
    ending: bool = False
    """The agent is on its way out."""

    def intent(self, why: str, *, uid: int | None = None, given_up: bool = False) -> CancelIntent:
        """That something is to end, from now on. Without `uid` it is the agent itself who wants that, or its controller."""
        return CancelIntent(uid=uid, why=why, at=self.clock(), at_boot_s=boot_clock.boot_s(), given_up=given_up)

    @property
    def halted(self) -> bool:
        """Whether nothing is begun any more: the agent ends, or does not own its folder."""
        return self.ending or self.lost.is_set()

    @property
    def steps_inode(self) -> tuple[int, int]:
        """Which folder the steps are launched into, whatever its path leads to."""
        facts = os.fstat(self.state_dir.steps.fileno())
        return facts.st_dev, facts.st_ino
