"""Short jobs one after the other, as many as the agent takes; and the way of one job at ten a second."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.agent_home import MeasuredAgent, agent, job_spec, processors_ms
from benchmarks.bench_recorder import SYNCS, three_syncs
from benchmarks.measure import Contender, Figure, each_us, interleave
from benchmarks.parts import part
from benchmarks.scale import Scale
from benchmarks.stamped import StampedJob
from benchmarks.step_home import StampedStep, disk, state_folder
from benchmarks.step_launch import LAUNCH
from spurproc.client.launch import launch
from spurproc.client.spec import StepSpec
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.proto.runtime_id import RuntimeId
from tests.steps import WAIT_S, Steps

SUSTAINED = "`true` jobs through the agent"
BARE_TWO = "bare `launch`, wait and remove of `true`, two at a time"
BARE_FOUR = "bare `launch`, wait and remove of `true`, four at a time"
STARTED = "submit call to the leader's main, ten jobs a second"
_ANSWERED = part(STARTED, "until the submission is durable, and answered")
OFFERED = "a job's exit to its report offered"
TOLD = "a job's exit to a user who waits"
BARE_TOLD = "exit to a client that waits for all of a step"

_PACE_S = 0.1
_TRUE = "/bin/true"


def measure_sustained(scale: Scale) -> list[Figure]:
    """`load` jobs are submitted at once to a node with the CPUs of this machine, one a job; until the last has ended."""
    numbers = count(1)
    spent: dict[str, list[list[float]]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(disk())
        ours = stack.enter_context(agent())
        steps = stack.enter_context(state_folder(folder / "state"))
        ours.await_end(ours.submit(job_spec(_TRUE)))
        contenders = [
            Contender(name=SUSTAINED, unit="jobs/s", take=lambda: [_loaded(ours, scale.load, spent)]),
            Contender(name=BARE_TWO, unit="jobs/s", take=lambda: [_bare(steps, scale.load, numbers, 2)]),
            Contender(name=BARE_FOUR, unit="jobs/s", take=lambda: [_bare(steps, scale.load, numbers, 4)]),
        ]
        figures = interleave(contenders, scale.fewer(14), min(1, scale.warm_up))
    kept = {name: rounds[min(1, scale.warm_up) :] for name, rounds in spent.items()}
    return figures + [Figure(name=part(SUSTAINED, name), unit="ms", rounds=rounds) for name, rounds in kept.items()]


def _loaded(ours: MeasuredAgent, jobs: int, spent: dict[str, list[list[float]]]) -> float:
    """Jobs a second; the CPU time of a job goes into `spent`."""
    before, begun = processors_ms(), time.monotonic()
    ids = [ours.submit(job_spec(_TRUE)) for _ in range(jobs)]
    submitted = time.monotonic()
    for job in ids[-(os.cpu_count() or 1) :]:  # in the order of the queue: all others have ended before
        ours.await_end(job)
    ended = time.monotonic()
    if any(job.state != "ended" for job in ours.client.jobs(most=jobs)):
        raise RuntimeError("a job has not ended")
    for name, after in processors_ms().items():
        spent.setdefault(f"CPU time of a job, {name}", []).append([(after - before[name]) / jobs])
    spent.setdefault("submitted within", []).append([(submitted - begun) * 1000 / jobs])
    return jobs / (ended - begun)


def _bare(steps: Steps, jobs: int, numbers: count[int], at_once: int) -> float:
    begun = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(_one, steps, next(numbers)) for _ in range(jobs)]:
            done.result()
    return jobs / (time.monotonic() - begun)


def _one(steps: Steps, number: int) -> None:
    step = launch(StepSpec(runtime_id=RuntimeId(number, 1, 0), plan=SpawnPlan(argv=[_TRUE], cwd="/")), steps.path)
    step.wait(WAIT_S, completed=True)
    step.remove()


def measure_way(scale: Scale) -> list[Figure]:
    """The job stamps its first line and its end itself; it ends before the next is submitted."""
    numbers = count()
    ends: list[tuple[int, int, float]] = []
    answered: list[float] = []
    with ExitStack() as stack:
        folder = stack.enter_context(disk())
        ours = stack.enter_context(agent())
        steps = stack.enter_context(state_folder(folder / "state"))
        pace = _Pace()
        contenders = [
            Contender(name=STARTED, unit="ms", take=lambda: [_job(ours, folder / f"job-{next(numbers)}", ends, answered, pace)]),
            Contender(name=LAUNCH, unit="ms", take=lambda: [_step(steps, next(numbers), bare_ends)]),
            Contender(name=SYNCS, unit="us", take=lambda: each_us(partial(three_syncs, folder), 3)),
        ]
        bare_ends: list[float] = []
        figures = interleave(contenders, scale.rounds, scale.warm_up)
        offers = ours.offers()
    offered = [[(offers[job] - ended_ns) / 1e6] for job, ended_ns, _ in ends[scale.warm_up :]]
    told = [[taken] for _, _, taken in ends[scale.warm_up :]]
    return [
        *figures,
        Figure(name=_ANSWERED, unit="ms", rounds=[[taken] for taken in answered[scale.warm_up :]]),
        Figure(name=OFFERED, unit="ms", rounds=offered),
        Figure(name=TOLD, unit="ms", rounds=told),
        Figure(name=BARE_TOLD, unit="ms", rounds=[[taken] for taken in bare_ends[scale.warm_up :]]),
    ]


class _Pace:
    """Ten a second."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def keep(self) -> None:
        """Until it is time for the next."""
        time.sleep(max(0.0, self._next - time.monotonic()))  # noqa: TID251 - so many a second is what is asked for
        self._next = max(self._next, time.monotonic() - _PACE_S) + _PACE_S


def _job(ours: MeasuredAgent, folder: Path, ends: list[tuple[int, int, float]], answered: list[float], pace: _Pace) -> float:
    stamped = StampedJob(folder)
    spec = job_spec(stamped.program, stamped.folder)
    pace.keep()
    begun_ns = time.monotonic_ns()
    job = ours.submit(spec)
    answered.append((time.monotonic_ns() - begun_ns) / 1e6)
    taken = (stamped.begun_ns() - begun_ns) / 1e6
    stamped.release()
    ours.await_end(job)
    told_ns = time.monotonic_ns()
    ends.append((job, stamped.ended_ns(), (told_ns - stamped.ended_ns()) / 1e6))
    stamped.remove()
    return taken


def _step(steps: Steps, number: int, ends: list[float]) -> float:
    """As the agent does it, without an agent."""
    step = StampedStep(steps, number)
    taken = step.launch_ms()
    step.job.release()
    step.step.wait(WAIT_S, completed=True)
    ends.append((time.monotonic_ns() - step.job.ended_ns()) / 1e6)
    step.end()
    return taken
