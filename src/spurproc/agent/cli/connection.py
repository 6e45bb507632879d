"""A client of the agent's socket that blocks: what the commands use, and anybody's Python may."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from spurproc.agent.cli.agent_lines import AgentLines
from spurproc.agent.cli.agent_socket import open_agent_socket
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.replies import (
    CancelTaken,
    Changed,
    Done,
    Ended,
    JobDetail,
    JobList,
    NodeStatus,
    RequeueTaken,
    Reserved,
    Submitted,
    Welcome,
)
from spurproc.agent.service.requests import (
    Alloc,
    Cancel,
    Drain,
    Hello,
    Jobs,
    Release,
    Requeue,
    Resume,
    Show,
    Status,
    Submit,
    Suspend,
    Undrain,
    Wait,
)
from spurproc.agent.service.shown import JobView
from spurproc.proto.attempt_id import AttemptId
from spurproc.version import VERSION

__all__ = ["AgentClient"]


class AgentClient:
    """One connection: one request after the other. Owns its socket; use it as a context manager.

    What the agent refuses raises NotPermitted, AlreadyGone (no such job, or another user's), InvalidArgument, Unsupported (never
    here), Busy (not now) or AgentRefused; no answer, AgentUnreachable.
    """

    def __init__(self, end: socket.socket, where: str, timeout_s: float) -> None:
        """Takes `end`. See `connect`."""
        self._lines = AgentLines(end, where, timeout_s)
        self.welcome = self._lines.ask(Hello(program=f"spurd {VERSION}"), Welcome)
        """Who the agent is, and whom it takes us for."""

    @classmethod
    def connect(cls, path: str | os.PathLike[str], *, timeout_s: float = 30.0) -> Self:
        """Reach the agent that listens at `path`, however long that is. `timeout_s`: for this, and for each answer.

        It has to be root's or our own: others would get our script, and could say anything. Raises AgentUnreachable and
        NotPermitted.
        """
        where = os.path.abspath(path)
        end = open_agent_socket(where, timeout_s)
        try:
            return cls(end, where, timeout_s)
        except BaseException:
            end.close()
            raise

    def submit(self, spec: JobSpec, *, key: str | None = None) -> Submitted:
        """Put a job into the queue; durable once this returns. With a key it may be said again if no answer came."""
        return self._lines.ask(Submit(spec=spec, key=key), Submitted)

    def jobs(self, *, uid: int | None = None, states: tuple[str, ...] = (), most: int | None = None) -> Iterator[JobView]:
        """The latest first, at most so many."""
        before, left = None, math.inf if most is None else most
        while left > 0:
            page = self._lines.ask(Jobs(uid=uid, states=states, before=before, limit=int(min(left, 200))), JobList)
            yield from page.jobs
            left -= len(page.jobs)
            if not page.more or not page.jobs:
                return
            before = page.jobs[-1].attempt.job_id

    def show(self, job_id: int) -> JobDetail:
        """All that is known of a job."""
        return self._lines.ask(Show(job_id=job_id), JobDetail)

    def wait(self, job_id: int, *, timeout_s: float | None = None) -> Iterator[Changed | Ended]:
        """How the job stands, and each change; the last one is `Ended`. Raises WaitTimeout, and then the connection is over."""
        self.begin_wait(job_id)
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            standing = self.standing(deadline)
            yield standing
            if isinstance(standing, Ended):
                return

    def begin_wait(self, job_id: int) -> None:
        """Ask to be told, and return at once: `standing` is the answer. For those who wait for other things as well."""
        self._lines.send(Wait(job_id=job_id))

    def standing(self, deadline: float = math.inf) -> Changed | Ended:
        """The next that is told of a job. Raises WaitTimeout at `deadline`, which is a monotonic time."""
        standing = self._lines.received(deadline)
        if not isinstance(standing, Changed | Ended):
            raise self._lines.odd(standing)
        return standing

    @property
    def has_read_ahead(self) -> bool:
        """Whether something was read that was not asked for yet: no poll of the socket tells of it."""
        return self._lines.has_read_ahead

    def cancel(self, attempt: AttemptId, *, why: str = "") -> str:
        """End exactly this attempt; returns what came of it, in words."""
        return self._lines.ask(Cancel(attempt=attempt, why=why), CancelTaken).answer

    def suspend(self, attempt: AttemptId) -> None:
        """Freeze exactly this attempt."""
        self._lines.ask(Suspend(attempt=attempt), Done)

    def resume(self, attempt: AttemptId) -> None:
        """Undo `suspend`."""
        self._lines.ask(Resume(attempt=attempt), Done)

    def requeue(self, attempt: AttemptId, *, why: str = "") -> RequeueTaken:
        """Run the job once more; this attempt is ended first if it runs."""
        return self._lines.ask(Requeue(attempt=attempt, why=why), RequeueTaken)

    def drain(self, why: str = "") -> bool:
        """Start nothing new. False: it was so before."""
        return self._lines.ask(Drain(why=why), Done).changed

    def undrain(self) -> bool:
        """Undo `drain`. False: there was nothing to undo."""
        return self._lines.ask(Undrain(), Done).changed

    def status(self) -> NodeStatus:
        """How the node is."""
        return self._lines.ask(Status(), NodeStatus)

    def alloc(self, resources: ResourceRequest, *, for_s: float | None = None) -> Reserved:
        """Reserve that now, until `release`, until this connection ends, or for so long. Nothing else can be asked meanwhile."""
        return self._lines.ask(Alloc(resources=resources, for_s=for_s), Reserved)

    def release(self) -> None:
        """Give back what was reserved."""
        self._lines.ask(Release(), Done)

    def await_released(self) -> None:
        """Until the time of a reservation is over. Raises AgentUnreachable when the agent ends before."""
        reply = self._lines.received(math.inf)
        if not isinstance(reply, Done):
            raise self._lines.odd(reply)

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._lines.fileno()

    def close(self) -> None:
        """Let go. May be called twice."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
