"""How long does a spawn take until its exec is confirmed, and does the launcher's heap matter?"""

from __future__ import annotations

from functools import partial

from benchmarks import spawn_ways as ways
from benchmarks.cgroup_home import fresh_cgroup
from benchmarks.measure import Figure, interleave
from benchmarks.parts import measure_parts
from benchmarks.scale import Scale
from benchmarks.worker import Worker

SMALL = "small heap"
LARGE = "large heap"

_SPAWN = "spurproc.core.spawn.spawn"
_PLAIN_PARTS = {
    "all of it": "benchmarks.spawn_ways:spawn",
    "signals held back": f"{_SPAWN}:SignalsHeld.__init__",
    "names and descriptors looked up": f"{_SPAWN}:resolve",
    "plan packed": f"{_SPAWN}:pack_plan",
    "clone and exec, in C": "spurproc.core.spawn.clone_call:lib.spur_spawn",
    "identity read": "spurproc.core.process.identity:ProcessIdentity.of_child",
}
_FULL_PARTS = _PLAIN_PARTS | {
    "cgroup looked at": f"{_SPAWN}:_refuse_frozen",
    "exec waited for": "spurproc.core.spawn.starting:Starting.confirm",
}


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
        figures = interleave(contenders, scale.fewer(2), scale.warm_up) + small.absent(SMALL) + large.absent(LARGE)
    return figures + _parts(scale.rounds)


def _parts(times: int) -> list[Figure]:
    """In this process, which has a small heap too."""
    plain = partial(ways.spawn_once, ways.plan(detach=True))
    figures = measure_parts(ways.PLAIN_DETACHED, plain, _PLAIN_PARTS, times)
    with fresh_cgroup("parts") as cgroup:
        if ways.why_not_full(cgroup):
            return figures
        full = partial(ways.spawn_once, ways.full_plan(cgroup))
        return figures + measure_parts(ways.FULL_CHILD, full, _FULL_PARTS, times)
