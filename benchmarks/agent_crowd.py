"""Many live jobs at once: what memory the agent takes for them, and how long it takes to serve again after a restart."""

from __future__ import annotations

from contextlib import suppress

from benchmarks.agent_home import MeasuredAgent, agent, job_spec
from benchmarks.measure import Figure
from benchmarks.scale import Scale
from spurproc.errors import SpurprocError

_SHARES = {"no step": 0, "a quarter of them": 4, "half of them": 2, "all of them": 1}
STARTED = {share: f"start to serving, {share} live" for share in _SHARES}
EACH_OF_ALL = "start to serving, for each of all"
EACH_OF_A_QUARTER = "start to serving, for each of a quarter of them"
MEMORY = {share: f"memory, {share} live" for share in _SHARES}
BEYOND = "memory with all of them live, less 10 KiB for each"
OF_A_JOB = "memory of a live job"

_KIB_A_JOB = 10


def measure_crowd(scale: Scale) -> list[Figure]:
    """`adopted` jobs that sleep, on a node that is said to have so many CPUs, of which an agent has launched the last half."""
    starts: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    with agent(cpus=scale.adopted + 1) as measured:
        _restarts(measured, 1)
        for share, divisor in _SHARES.items():
            live = scale.adopted // divisor if divisor else 0
            _grow(measured, live)
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
    bare = starts["no step"]
    figures = [Figure(name=STARTED[share], unit="ms", rounds=[[one] for one in taken]) for share, taken in starts.items()]
    for name, share, count in (
        (EACH_OF_ALL, "all of them", adopted),
        (EACH_OF_A_QUARTER, "a quarter of them", adopted // 4),
    ):
        each = [[(one - none) * 1000 / count] for one, none in zip(sorted(starts[share]), sorted(bare), strict=True)]
        figures.append(Figure(name=name, unit="us", rounds=each))
    return figures


def _sizes(memory: dict[str, float], adopted: int) -> list[Figure]:
    all_of_them, none = memory["all of them"], memory["no step"]
    figures = [Figure(name=MEMORY[share], unit="KiB", rounds=[[size]]) for share, size in memory.items()]
    figures.append(Figure(name=BEYOND, unit="KiB", rounds=[[all_of_them - _KIB_A_JOB * adopted]]))
    return [*figures, Figure(name=OF_A_JOB, unit="KiB", rounds=[[(all_of_them - none) / adopted]])]
