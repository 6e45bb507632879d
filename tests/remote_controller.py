"""A controller on another machine, as its node sees it: it forgets nodes, loses answers, refuses reports, takes work back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from spurproc.agent.controller.link import (
    Acknowledged,
    AttemptReport,
    Beat,
    Cancel,
    Dispatch,
    Healthy,
    NodeDescription,
    NodeView,
    NotFound,
    Nothing,
    Reclaim,
    RefusedForGood,
    Registered,
    Unreachable,
)
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.resources.request import ResourceRequest
from spurproc.proto.attempt_id import AttemptId


class Loss(Enum):
    """What becomes of a message."""

    MESSAGE = "it never arrives"
    ANSWER = "it arrives, and its answer does not"


@dataclass(slots=True)
class _Job:
    spec: JobSpec
    attempt: AttemptId
    dispatched: bool = False
    cancelled: bool = False
    report: AttemptReport | None = None


@dataclass(slots=True)
class RemoteController:
    """A `ControllerLink`. `now`: its clock; a node that is silent for `timeout_s` is lost, and its attempts are given up."""

    now: Callable[[], float] = lambda: 0.0
    timeout_s: float = 60.0
    jobs: dict[int, _Job] = field(default_factory=dict)
    sent: list[object] = field(default_factory=list)
    """All that arrived, in order."""
    losses: list[Loss | None] = field(default_factory=list)
    """For the next messages, in order."""
    losing: dict[type, list[Loss]] = field(default_factory=dict)
    """For the next messages of a kind, in order, whatever comes between them."""
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set a registration, or the end of one, is known and not answered."""
    refused: set[AttemptId] = field(default_factory=set)
    node: NodeDescription | None = None
    generation: int = 0
    heard: Callable[[], None] = lambda: None
    """Called behind what each message does, before it is answered."""
    _heard_at: float = 0.0
    _reclaims: list[Reclaim] = field(default_factory=list)
    _shown: set[AttemptId] = field(default_factory=set)
    """What the node has in hand, as it has shown since it was registered."""
    _drained: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answering.set()

    # What its own users and operators do.

    def submit(self, spec: JobSpec) -> int:
        """A job at the end of the queue."""
        job_id = len(self.jobs) + 1
        self.jobs[job_id] = _Job(spec=spec, attempt=AttemptId(job_id, 1))
        self._news.set()
        return job_id

    def cancel(self, job_id: int) -> None:
        """End it."""
        self.jobs[job_id].cancelled = True
        self._news.set()

    def requeue(self, job_id: int) -> None:
        """Another attempt, whatever becomes of the one before."""
        before = self.jobs[job_id]
        self.jobs[job_id] = _Job(spec=before.spec, attempt=AttemptId(job_id, before.attempt.run_attempt + 1))
        self._news.set()

    def restore(self, job_id: int, run_attempt: int = 1) -> None:
        """As out of a backup of before the report of this attempt, which is given out again."""
        self.jobs[job_id] = _Job(spec=self.jobs[job_id].spec, attempt=AttemptId(job_id, run_attempt), dispatched=True)
        self._shown.clear()
        self._news.set()

    def reclaim(self, attempt: AttemptId) -> None:
        """Say with the next beat that this attempt is given up, current or not."""
        self._reclaims.append(Reclaim(attempt=attempt, why="given up"))

    def forget_node(self) -> None:
        """As after a restart without its memory."""
        self.node = None

    # What its node says.

    async def register(self, node: NodeDescription) -> Registered:
        """See ControllerLink."""
        with self._message(node):
            self.generation += 1
            self._shown.clear()
            self.node, self._heard_at, self._drained = node, self.now(), bool(node.drains)
            self._news.set()
            answer = Registered(generation=self.generation)
        await self.answering.wait()
        return answer

    async def deregister(self) -> None:
        """See ControllerLink."""
        with self._message("deregister"):
            self.node = None
        await self.answering.wait()

    async def heartbeat(self, beat: Beat) -> Healthy | NotFound:
        """See ControllerLink."""
        with self._message(beat):
            self._lose_silent_node()
            if self.node is None or beat.generation != self.generation:
                return NotFound()
            self._heard_at = self.now()
            reclaims, self._reclaims = tuple(self._reclaims), []
        return Healthy(reclaims=reclaims)

    async def take_work(self, free: NodeView) -> Dispatch | Cancel | Nothing | NotFound:
        """See ControllerLink."""
        with self._message("take work"):
            self._lose_silent_node()
            return NotFound() if self.node is None else self._order(free)

    async def await_work(self) -> None:
        """See ControllerLink."""
        await self._news.wait()
        self._news.clear()

    async def report(self, report: AttemptReport) -> Acknowledged | RefusedForGood:
        """See ControllerLink."""
        with self._message(report):
            job = self.jobs.get(report.attempt.job_id)
            if report.attempt in self.refused or job is None or job.attempt != report.attempt or not job.dispatched:
                return RefusedForGood(why=f"nobody waits for attempt {report.attempt}")
            job.report = job.report or report
        return Acknowledged()

    async def drain(self, reasons: tuple[str, ...]) -> NotFound | None:
        """See ControllerLink."""
        with self._message(reasons):
            if self.node is None:
                return NotFound()
            self._drained = bool(reasons)
            self._news.set()
        return None

    def to_ask(self) -> tuple[tuple[AttemptId, ...], ResourceRequest | None]:
        """What `take_work` depends on: attempts that the node may hold, and what is next in the queue."""
        mine = tuple(job.attempt for job in self.jobs.values() if job.dispatched and job.report is None)
        head = self._head()
        return mine, None if head is None else head.spec.resources

    def _head(self) -> _Job | None:
        return next((job for job in self.jobs.values() if not job.dispatched and not job.cancelled), None)

    def _order(self, free: NodeView) -> Dispatch | Cancel | Nothing:
        mine = [job for job in self.jobs.values() if job.dispatched and job.report is None]
        self._shown.update(job.attempt for job in mine if free.has(job.attempt))
        for job in mine:
            if job.attempt not in self._shown:
                return Dispatch(attempt=job.attempt, spec=job.spec)
        for job in mine:
            if job.cancelled and not free.cancelling(job.attempt):
                return Cancel(attempt=job.attempt)
        head = self._head()
        if head is not None and not self._drained and free.fits(head.spec.resources):
            head.dispatched = True
            return Dispatch(attempt=head.attempt, spec=head.spec)
        return Nothing()

    def _lose_silent_node(self) -> None:
        if self.node is None or self.now() - self._heard_at < self.timeout_s:
            return
        self.node = None
        for job_id, job in list(self.jobs.items()):
            if job.dispatched and job.report is None:
                self._reclaims.append(Reclaim(attempt=job.attempt, why="the node was lost"))
                self.requeue(job_id)

    def _message(self, what: object) -> _Passage:
        losses = self.losing.get(type(what)) or self.losses
        loss = losses.pop(0) if losses else None
        if loss is Loss.MESSAGE:
            raise Unreachable("cut off")
        self.sent.append(what)
        return _Passage(loss, self.heard)


class _Passage:
    """Around what a message does: where its answer is lost that is done all the same."""

    def __init__(self, loss: Loss | None, through: Callable[[], None]) -> None:
        self._loss = loss
        self._through = through

    def __enter__(self) -> None:
        """It has arrived."""

    def __exit__(self, *exc: object) -> None:
        self._through()
        if self._loss is Loss.ANSWER:
            raise Unreachable("cut off")
