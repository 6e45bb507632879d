"""The built-in queue against a naive one, over random histories with restarts: nothing runs twice, overtakes or is forgotten."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spurproc.agent.controller.link import Acknowledged, Cancel, Dispatch, Nothing, RefusedForGood
from spurproc.agent.controller.local.controller import LocalController
from spurproc.agent.controller.local.ending import CancelAnswer, Requeued
from spurproc.agent.controller.local.link import LocalLink
from spurproc.agent.controller.local.records import JobState
from spurproc.agent.jobs.job_spec import RequeuePolicy
from spurproc.errors import Busy
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import View, node, report_of, wanting

T = TypeVar("T")
_FAULTS_LAST = 5


@dataclass
class Job:
    """What the naive queue knows of one."""

    job_id: int
    cpus: int
    on_fault: bool
    place: int
    attempt: int = 1
    state: JobState = JobState.QUEUED
    cancelled: bool = False
    insisted: bool = False
    again: bool = False
    faults: int = 0
    ends: dict[int, int | None] = field(default_factory=dict)
    """By attempt: the code that it was first reported with; None where it never ran."""

    @property
    def current(self) -> AttemptId:
        """The attempt that counts."""
        return AttemptId(self.job_id, self.attempt)


class QueueMachine(RuleBasedStateMachine):
    """A dict of jobs and a counter, and the controller beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="spurproc-queue-"))
        self.runner = asyncio.Runner()
        self.jobs: dict[int, Job] = {}
        self.keys: dict[str, int] = {}
        self.places = 0
        self.view = View()
        self.floor = 0

    def play(self, act: Coroutine[Any, Any, T]) -> T:
        """To its end."""
        return self.runner.run(act)

    @initialize()
    def start(self) -> None:
        """Of the agent, and its controller in it."""
        self.controller = self.play(LocalController.open(self.folder / "controller.db", clock=lambda: 1.0))
        self.link = LocalLink(self.controller)
        self.play(self.link.register(node()))

    @rule()
    def restart(self) -> None:
        """What was accepted by the agent it still holds."""
        self.play(self.controller.close())
        self.start()
        for job in self.jobs.values():
            job.insisted = False

    @rule(cpus=st.integers(1, 4), on_fault=st.booleans(), key=st.none() | st.sampled_from("ab"))
    def submit(self, cpus: int, on_fault: bool, key: str | None) -> None:
        """One more, unless its key is known."""
        known = None if key not in self.keys else self.jobs[self.keys[key]]
        if known is not None:
            cpus, on_fault = known.cpus, known.on_fault
        policy = RequeuePolicy.ON_NODE_FAULT if on_fault else RequeuePolicy.NEVER
        done = self.play(self.controller.submit(wanting(cpus, requeue=policy), submitted_by=0, key=key))
        assert done.repeated == (known is not None)
        if known is not None:
            assert done.job_id == known.job_id
            return
        assert done.job_id > max([self.floor, *self.jobs])
        self.jobs[done.job_id] = Job(job_id=done.job_id, cpus=cpus, on_fault=on_fault, place=self.next_place())
        if key is not None:
            self.keys[key] = done.job_id

    def next_place(self) -> int:
        """Behind all others."""
        self.places += 1
        return self.places

    @rule(job_id=st.integers(1, 30))
    def seen_elsewhere(self, job_id: int) -> None:
        """A step folder has this id."""
        self.floor = max(self.floor, job_id)
        self.play(self.controller.floor(job_id))

    @rule(free=st.integers(0, 4), holds=st.booleans(), hears=st.booleans())
    def take_work(self, free: int, holds: bool, hears: bool) -> None:
        """What stands, else the head of the queue if that fits."""
        self.view.free_cpus = free
        order = self.play(self.link.take_work(self.view))
        running = [job for job in self.jobs.values() if job.state is JobState.DISPATCHED]
        held = [job for job in running if job.current in self.view.held]
        unheeded = [job for job in held if job.cancelled and (job.insisted or job.current not in self.view.ending)]
        if unheeded:
            assert isinstance(order, Cancel)
            assert order.attempt in [job.current for job in unheeded]
            self.jobs[order.attempt.job_id].insisted = False
            if hears:
                self.view.ending.add(order.attempt)
            return
        unheld = self.undelivered([job for job in running if job not in held], free)
        queued = sorted((job for job in self.jobs.values() if job.state is JobState.QUEUED), key=lambda job: job.place)
        if unheld is not None:
            assert isinstance(order, Dispatch)
            assert order.attempt == unheld.current
        elif not queued or queued[0].cpus > free:
            assert order == Nothing()
            return
        else:
            assert isinstance(order, Dispatch)
            assert order.attempt == queued[0].current
            queued[0].state = JobState.DISPATCHED
        if holds:
            self.view.held.add(order.attempt)

    def undelivered(self, unheld: list[Job], free: int) -> Job | None:
        """Of one that the node has not got: it ends if it is to, is queued again where it does not fit, or is said again."""
        assert len(unheld) <= 1
        for job in unheld:
            if job.cancelled:
                job.ends[job.attempt] = None
                self.end(job, fault=False)
            elif job.cpus > free:
                job.state = JobState.QUEUED
            else:
                return job
        return None

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A job, or one attempt of it."""
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        attempt = data.draw(st.none() | st.integers(1, 3))
        answer = self.play(self.controller.cancel(job.job_id, run_attempt=attempt))
        if attempt not in (None, job.attempt):
            assert answer is CancelAnswer.OTHER_ATTEMPT
        elif job.state is JobState.ENDED:
            assert answer is CancelAnswer.OVER
        elif job.state is JobState.QUEUED:
            assert answer is CancelAnswer.ENDED_IN_QUEUE
            job.state, job.ends[job.attempt] = JobState.ENDED, None
        else:
            assert answer is CancelAnswer.ASKED
            job.cancelled, job.insisted, job.again = True, True, False

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        """As a new attempt, once the one before has ended."""
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        try:
            done = self.play(self.controller.requeue(job.job_id))
        except Busy:
            assert job.state is JobState.QUEUED
            return
        assert done == Requeued(attempt=AttemptId(job.job_id, job.attempt + 1), now=job.state is JobState.ENDED)
        if job.state is JobState.ENDED:
            self.put_back(job, self.next_place())
        else:
            job.cancelled = job.insisted = job.again = True

    def put_back(self, job: Job, place: int) -> None:
        """Its next attempt."""
        job.attempt, job.place, job.state = job.attempt + 1, place, JobState.QUEUED
        job.cancelled = job.insisted = job.again = False

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), code=st.integers(0, 3), fault=st.booleans())
    def report(self, data: st.DataObject, code: int, fault: bool) -> None:
        """Of any attempt: the one that runs, one that was reported, one that never was."""
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        attempt = data.draw(st.integers(max(1, job.attempt - 1), job.attempt + 1))
        told = report_of(AttemptId(job.job_id, attempt), code, node_fault="it broke" if fault else None)
        answer = self.play(self.link.report(told))
        if attempt in job.ends:
            assert answer == Acknowledged()
        elif attempt != job.attempt or job.state is not JobState.DISPATCHED:
            assert isinstance(answer, RefusedForGood)
        else:
            assert answer == Acknowledged()
            job.ends[attempt] = code
            self.end(job, fault=fault)

    def end(self, job: Job, *, fault: bool) -> None:
        """Over, or put back."""
        job.faults += fault
        if job.again:
            self.put_back(job, self.next_place())
        elif fault and job.on_fault and not job.cancelled and job.faults <= _FAULTS_LAST:
            self.put_back(job, job.place)
        else:
            job.state = JobState.ENDED

    @invariant()
    def the_records_say_the_same(self) -> None:
        """For every job, and every attempt of it."""
        if not self.jobs:
            return
        found = {record.job_id: record for record in self.play(self.controller.jobs())}
        assert found.keys() == self.jobs.keys()
        for job in self.jobs.values():
            record = found[job.job_id]
            assert (record.run_attempt, record.state, record.requeue_wanted) == (job.attempt, job.state, job.again)
            reports = {one.attempt.run_attempt: one.report for one in self.play(self.controller.attempts(job.job_id))}
            assert {attempt: report.end.code for attempt, report in reports.items() if report is not None} == job.ends

    def teardown(self) -> None:
        """Leave nothing."""
        self.play(self.controller.close())
        self.runner.close()
        shutil.rmtree(self.folder)


QueueMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40)
test_the_queue_does_what_a_naive_one_does = QueueMachine.TestCase
