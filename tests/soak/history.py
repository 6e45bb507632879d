"""What happens to a node, one thing after the other, as a seed says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.descriptor import Descriptor
from tests.soak.jobs import Job, draw
from tests.soak.node import Node, Refused

_TIMES = 4
"""A supervisor that nobody tells to start gives up after a minute, and a report that was refused is offered again later."""


class History:
    """One of them. What it has done stands in `said`, a line for each."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node = node
        self.random = Random(seed)
        self.jobs: list[Job] = []
        self.said: list[str] = []
        self.was_full = False
        self._room_in = 0

    def go_on(self) -> None:
        """One thing more."""
        if self.node.full:
            self._room_in -= 1
            if self._room_in <= 0:
                self.make_room()
        (act,) = self.random.choices(list(_ACTS), list(_ACTS.values()))
        self.said.append(act.__name__.strip("_"))
        try:
            act(self)
        except Refused as refused:
            self.said[-1] += f": {refused}"
            assert self.node.full or act in _MAY_BE_REFUSED, self.said[-1]
        except ConnectionError:
            assert self.node.full, f"no agent serves: {self.said[-1]}"
        if self.node.agent.process is None or self.node.agent.process.poll() is not None:
            self.start()

    def start(self) -> None:
        """A new agent; on a full disk it may have to wait for room."""
        if self.node.agent.process is not None:
            code = self.node.agent.wait()
            assert self.node.full, f"the agent has ended by itself: {code}"
        if not self.node.start():
            self.said.append("cannot start")
            self.make_room()
            assert self.node.start()

    def cut_short(self, name: str) -> bool:
        """Whether the agent was killed on the way to starting it, and says so."""
        return any("its launch was cut short" in fault for fault in self.node.ask(f"faults {name.partition('.')[0]}"))

    def make_room(self) -> None:
        """On its disk."""
        if self.node.full:
            self.node.free()
            self.said.append("room again")

    # What may happen.

    def _job(self) -> Job | None:
        """One of the last ones."""
        known = [job for job in self.jobs[-12:] if job.job_id is not None]
        return self.random.choice(known) if known else None

    def _submit(self) -> None:
        job = draw(self.random, self.node.facts, len(self.jobs))
        self.jobs.append(job)
        self.said[-1] += f" {job.kind}"
        self.node.submit(job)
        self.said[-1] += f" {job.job_id}"

    def _submit_unheard(self) -> None:
        job = draw(self.random, self.node.facts, len(self.jobs))
        self.jobs.append(job)
        self.said[-1] += f" {job.kind}"
        self.node.submit_unheard(job)
        self.start()
        self.node.submit(job)
        self.said[-1] += f" {job.job_id}"

    def _let_go(self) -> None:
        waiting = [job for job in self.jobs if not job.let_go]
        for job in waiting[: self.random.randint(1, 3)]:
            job.let_go = True
            job.gate.open()

    def _cancel(self) -> None:
        job = self._job()
        if job is not None:
            self.said[-1] += f" {job.job_id}"
            job.told_to_end = True
            self.node.ask(f"cancel {job.job_id}")

    def _requeue(self) -> None:
        job = self._job()
        if job is not None:
            self.said[-1] += f" {job.job_id}"
            job.told_to_end, job.let_go, job.attempts = True, False, job.attempts + 1
            self.node.ask(f"requeue {job.job_id}")

    def _suspend(self) -> None:
        self._turn("suspend", "running")

    def _resume(self) -> None:
        self._turn("resume", "suspended")

    def _turn(self, verb: str, state: str) -> None:
        names = sorted(name for name, one in self.node.ask("attempts").items() if one["state"] == state)
        if names:
            name = self.random.choice(names)
            self.said[-1] += f" {name}"
            self.node.ask(f"{verb} {name}")

    def _drain(self) -> None:
        self.node.ask("drain")

    def _undrain(self) -> None:
        self.node.ask("undrain")

    def _kill_agent(self) -> None:
        self.node.agent.kill()

    def _stop_agent(self) -> None:
        code = self.node.agent.stop()
        assert code == 0, f"told to end, the agent says {code}"

    def _kill_supervisor(self) -> None:
        steps = list(self.node.descriptors())
        if steps:
            self._strike(self.random.choice(steps), host=False)

    def _kill_host(self) -> None:
        steps = list(self.node.descriptors())
        if steps:
            self._note_witness(steps[-1])
            self.node.kill(steps[-1].host)

    def _kill_both(self) -> None:
        steps = list(self.node.descriptors())
        if steps:
            self._strike(self.random.choice(steps), host=True)

    def _strike(self, step: Descriptor, *, host: bool) -> list[int]:
        """Its supervisor, and before it its host: then nobody is left who has seen how its leader ends."""
        name = str(AttemptId.of(step.runtime_id))
        self.said[-1] += f" {name}"
        for job in self.jobs:
            if job.job_id == step.runtime_id.job_id:
                job.unsupervised.add(name)
        if host:
            self._note_witness(step)
        victims = [step.host, step.supervisor] if host else [step.supervisor]
        return self.node.kill(*victims)

    def _note_witness(self, step: Descriptor) -> None:
        """Its host is killed, and that of all others that it has forked."""
        forked = {one.runtime_id for one in self.node.descriptors() if one.host == step.host}
        for runtime_id in forked:
            for job in self.jobs:
                if job.job_id == runtime_id.job_id:
                    job.unwitnessed.add(str(AttemptId.of(runtime_id)))

    def _strangers(self) -> None:
        """While no agent is there somebody dies, and somebody else gets his number."""
        self.node.agent.kill()
        steps = list(self.node.descriptors())
        if steps:
            step = self.random.choice(steps)
            dead = self._strike(step, host=self.random.random() < 0.3)
            for pid in dead:
                self.node.stranger(pid)
            self.said[-1] += f", pids {dead} are {[one.pid for one in self.node.strangers[-len(dead) :]] if dead else []}"

    def _step_clock(self) -> None:
        by_s = self.random.choice((-1, 1)) * 10 ** self.random.uniform(0, 5)
        self.said[-1] += f" {by_s:+.0f} s"
        self.node.clock.step(by_s)

    def _fill_disk(self) -> None:
        if not self.node.full:
            self.was_full = True
            self._room_in = self.random.randint(1, 4)
            self.node.fill()

    # And then.

    def settle(self) -> None:
        """Nothing happens any more, and all are let go: whatever was submitted comes to an end."""
        self.make_room()
        if self.node.agent.process is None or self.node.agent.process.poll() is not None:
            self.start()
        self.node.ask("undrain")
        for job in self.jobs:
            if job.job_id is None:  # who was refused, or not answered, tries again
                self.node.submit(job)
            for _ in range(job.attempts):
                job.gate.open()
        for job in self.jobs:
            self._await(job)

    def _await(self, job: Job) -> None:
        assert any(self._ends(job) for _ in range(_TIMES)), f"job {job.job_id} does not end: {self.node.ask('attempts')}"
        _, last, _ = self.node.ask(f"job {job.job_id}")
        job.attempts = min(job.attempts, last)
        for attempt in range(1, last + 1):
            self.node.ask(f"until {job.job_id}.{attempt} none")

    def _ends(self, job: Job) -> bool:
        """Within a minute. What stands still goes on; an operator has mended what has drained the node, for want of room."""
        for name, one in self.node.ask("attempts").items():
            if one["state"] == "suspended":
                with suppress(Refused):
                    self.node.ask(f"resume {name}")
        self.node.ask("undrain")
        with suppress(TimeoutError):
            self.node.ask(f"ended {job.job_id}")
            return True
        return False


_MAY_BE_REFUSED = {History._suspend, History._resume, History._requeue, History._cancel}
_ACTS: dict[Callable[[History], None], int] = {
    History._submit: 10,
    History._submit_unheard: 2,
    History._let_go: 2,
    History._cancel: 3,
    History._requeue: 2,
    History._suspend: 2,
    History._resume: 1,
    History._drain: 1,
    History._undrain: 2,
    History._kill_agent: 3,
    History._stop_agent: 1,
    History._kill_supervisor: 2,
    History._kill_host: 1,
    History._kill_both: 1,
    History._strangers: 2,
    History._step_clock: 2,
    History._fill_disk: 1,
}
