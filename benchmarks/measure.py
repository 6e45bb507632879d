"""Interleaved measurement: in each round every contender runs once, in turn, in the same process tree.

Noise of the machine then falls on all of them alike, and what is quoted is the median of the rounds' own ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Samples = Sequence[float]

_P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way of doing the thing. `take` does it, once or a few times, and returns what each took."""

    name: str
    unit: str
    take: Callable[[], Samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured of one contender: a row of values for each round. `missing` says why there is none."""

    name: str
    unit: str
    rounds: Sequence[Samples] = field(default_factory=list)
    missing: str = ""

    @property
    def samples(self) -> list[float]:
        """All values of all rounds."""
        return [value for samples in self.rounds for value in samples]

    @property
    def per_round(self) -> list[float]:
        """The median of each round: what rounds are compared by."""
        return [statistics.median(samples) for samples in self.rounds]

    @property
    def median(self) -> float:
        """Of all values."""
        return statistics.median(self.samples)

    @property
    def p99(self) -> float:
        """The value that 99 of 100 do not exceed; of fewer than a hundred the largest."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(len(ordered) * _P99))]


def absent(name: str, unit: str, why: str) -> Figure:
    """A figure that cannot be had here."""
    return Figure(name=name, unit=unit, missing=why)


def interleave(contenders: Sequence[Contender], rounds: int, warm_up: int) -> list[Figure]:
    """Let them take turns. Who begins changes from round to round, so that nobody always follows the same one."""
    taken: dict[str, list[Samples]] = {contender.name: [] for contender in contenders}
    for turn in range(-warm_up, rounds):
        first = turn % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            samples = contender.take()
            if turn >= 0:
                taken[contender.name].append(samples)
    return [Figure(name=one.name, unit=one.unit, rounds=taken[one.name]) for one in contenders]


def loops_ns(ask: Callable[[], object], turns: int, loops: int, each: int = 1) -> list[float]:
    """Nanoseconds of one call, or of one of the `each` questions that a call asks, from each of `loops` loops of `turns` calls.

    Loops should be shorter than a millisecond: then most are not interrupted by whatever else runs. The first is not kept.
    """
    turn, taken = range(turns), []
    for _ in range(loops + 1):
        start = time.perf_counter_ns()
        for _ in turn:
            ask()
        taken.append((time.perf_counter_ns() - start) / turns / each)
    return taken[1:]


def calls_ns(take_ns: Callable[[], float], loops: int) -> list[float]:
    """The same of a loop that takes its own time."""
    return [take_ns() for _ in range(loops + 1)][1:]


Start = Callable[[], Callable[[], object]]
"""Does what is timed, and returns what clears it away, which is not."""


def each_us(start: Start, times: int, untimed: int = 1) -> list[float]:
    """Microseconds of each of `times` calls, after `untimed` ones that pay for what the contender before has left cold."""
    taken = []
    for turn in range(-untimed, times):
        begun = time.perf_counter_ns()
        clear = start()
        ended = time.perf_counter_ns()
        clear()
        if turn >= 0:
            taken.append((ended - begun) / 1000)
    return taken


def once_us(call: Callable[[], object], times: int = 1, untimed: int = 1) -> list[float]:
    """`each_us` of a call that leaves nothing to clear away."""

    def start() -> Callable[[], object]:
        call()
        return _nothing

    return each_us(start, times, untimed)


def _nothing() -> None:
    return None
