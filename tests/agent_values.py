"""Jobs and nodes for the tests of the agent."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from spurproc.agent.controller.link import AttemptReport, NodeDescription
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.proto.attempt_id import AttemptId

SCRIPT = b"#!/bin/sh\nexit 0\n"
TOTALS = Inventory(cpus=(0, 1, 2, 3), memory_bytes=1 << 30)


def job_spec(**more: Any) -> JobSpec:
    """One that is valid, with `more` in it."""
    values: dict[str, Any] = {"name": "job", "user": "root", "uid": os.geteuid(), "gid": os.getegid()}
    if not more.keys() & {"script", "argv", "reservation"}:
        values["script"] = SCRIPT
    return JobSpec(**values | more)


def wanting(cpus: int, **more: Any) -> JobSpec:
    """One that asks for so many CPUs."""
    return job_spec(resources=ResourceRequest(cpus=cpus), **more)


def exited(code: int, *, at: float = 1.0) -> ExitInfo:
    """An end that a supervisor saw."""
    return dataclasses.replace(ExitInfo.from_wait_status(code << 8, source=ExitSource.RECORDED), observed_at=at)


def report_of(attempt: AttemptId, code: int = 0, **more: Any) -> AttemptReport:
    """That it exited with that code."""
    return AttemptReport(attempt=attempt, end=exited(code), **more)


def node(**more: Any) -> NodeDescription:
    """This one, as a controller sees it."""
    values: dict[str, Any] = {"node": "n1", "boot_id": "b", "version": "1", "totals": TOTALS}
    return NodeDescription(**values | more)


class View:
    """An agent as it shows itself: CPUs that are free, and the orders that it has."""

    def __init__(self, free_cpus: int = 4) -> None:
        self.free_cpus = free_cpus
        self.held: set[AttemptId] = set()
        self.ending: set[AttemptId] = set()

    def fits(self, request: ResourceRequest) -> bool:
        """By the number of CPUs."""
        return request.cpus <= self.free_cpus

    def has(self, attempt: AttemptId) -> bool:
        """See NodeView."""
        return attempt in self.held

    def cancelling(self, attempt: AttemptId) -> bool:
        """See NodeView."""
        return attempt in self.ending
