"""How long does a spawn take until its exec is confirmed, and does the launcher's heap matter?"""

from __future__ import annotations

from benchmarks.measure import Figure, interleave
from benchmarks.scale import Scale
from benchmarks.worker import Worker

SMALL = "small heap"
LARGE = "large heap"


def measure(scale: Scale) -> list[Figure]:
    """Two launchers side by side, one with a heap of 10 MiB, one of 4 GiB, every page of both touched, take turns.

    Every way of starting a program is measured in both: in a round five times, after one that is not timed, and the fork-fork
    daemon once.
    """
    with (
        Worker("benchmarks.spawn_ways", scale.small_heap_mib) as small,
        Worker("benchmarks.spawn_ways", scale.large_heap_mib) as large,
    ):
        contenders = [*small.contenders(SMALL), *large.contenders(LARGE)]
        return interleave(contenders, scale.fewer(2), scale.warm_up) + small.absent(SMALL) + large.absent(LARGE)
