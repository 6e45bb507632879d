"""Many live jobs at once: what memory the agent takes for them, and how long it takes to serve again after a restart.

Whether the start is linear is seen where steps are all that it waits for: the first hundreds are taken up while the agent still
loads its modules, and cost next to nothing. So what each costs from half of them to all is compared with what each costs from
there to twice as many.
"""

from __future__ import annotations

from contextlib import suppress

from benchmarks.agent_home import MeasuredAgent, agent, job_spec
from benchmarks.measure import Figure
from benchmarks.scale import Scale
from spurproc.errors import SpurprocError

_SHARES = {"no step": 0.0, "a quarter of them": 0.25, "half of them": 0.5, "all of them": 1.0, "twice as many": 2.0}
STARTED = {share: f"start to serving, {share} live" for share in _SHARES}
EACH_UP_TO_ALL = "start to serving, each from half of them to all"
EACH_UP_TO_TWICE = "start to serving, each from all of them to twice as many"
MEMORY = {share: f"memory, {share} live" for share in _SHARES}
BEYOND = "memory with all of them live, less 10 KiB for each"
OF_A_JOB = "memory of a live job"

_KIB_A_JOB = 10


def measure_crowd(scale: Scale) -> list[Figure]:
    """`adopted` jobs that sleep, and twice as many, on a node that is said to have so many CPUs.

    An agent has launched the last share of them, and taken up the others.
    """
    starts: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    with agent(cpus=2 * scale.adopted + 1) as measured:
        _restarts(measured, 1)
        for share, part in _SHARES.items():
            _grow(measured, round(scale.adopted * part))
            memory[share] = measured.memory_kib()
            starts[share] = _restarts(measured, scale.fewer(20))
    return [*_times(starts, scale.adopted), *_sizes(memory, scale.adopted)]


def _grow(measured: MeasuredAgent, live: int) -> None:
    """Until so many run, all launched by the agent that is there."""
    for _ in range(live - _running(measured)):
        measured.submit(job_spec("/bin/sleep", "3600"))
    while _running(measured) < live:
        measured.pause()


def _running(measured: MeasuredAgent) -> int:
    return dict(measured.client.status().jobs).get("running", 0)


def _restarts(measured: MeasuredAgent, times: int) -> list[float]:
    """Milliseconds of each; one more goes before them, which finds cold files."""
    taken = []
    for _ in range(times + 1):
        with suppress(SpurprocError):
            measured.stop()
        taken.append(measured.start() * 1000)
    return taken[1:]


def _times(starts: dict[str, list[float]], adopted: int) -> list[Figure]:
    figures = [Figure(name=STARTED[share], unit="ms", rounds=[[one] for one in taken]) for share, taken in starts.items()]
    for name, fewer, more in (
        (EACH_UP_TO_ALL, "half of them", "all of them"),
        (EACH_UP_TO_TWICE, "all of them", "twice as many"),
    ):
        steps = adopted * (_SHARES[more] - _SHARES[fewer])
        pairs = zip(sorted(starts[fewer]), sorted(starts[more]), strict=True)
        figures.append(Figure(name=name, unit="us", rounds=[[(later - before) * 1000 / steps] for before, later in pairs]))
    return figures


def _sizes(memory: dict[str, float], adopted: int) -> list[Figure]:
    all_of_them, none = memory["all of them"], memory["no step"]
    figures = [Figure(name=MEMORY[share], unit="KiB", rounds=[[size]]) for share, size in memory.items()]
    figures.append(Figure(name=BEYOND, unit="KiB", rounds=[[all_of_them - _KIB_A_JOB * adopted]]))
    return [*figures, Figure(name=OF_A_JOB, unit="KiB", rounds=[[(all_of_them - none) / adopted]])]
