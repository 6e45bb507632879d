"""Every target, as data: the table, the raw results and the tests are made from it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from benchmarks import bench_run as run
from benchmarks import spawn_ways as ways
from benchmarks.bench_spawn import LARGE, SMALL


class Relation(enum.Enum):
    """What of two figures a bound is about."""

    TIMES = "times"
    """ours / theirs, at most"""
    FASTER = "faster"
    """theirs / ours, at least"""
    ADDED = "added"
    """ours - theirs, at most, in the unit of the figures"""
    VALUE = "value"
    """ours alone, at most"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One condition. `ours` and `theirs` name figures; `than` is how the table calls theirs."""

    relation: Relation
    ours: str
    theirs: str = ""
    limit: float
    than: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the table: OK when every bound holds. `floor` and `parts`: figures that explain a miss."""

    what: str
    bench: str
    bounds: tuple[Bound, ...]
    floor: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def _times(ours: str, theirs: str, limit: float, than: str) -> Bound:
    return Bound(relation=Relation.TIMES, ours=ours, theirs=theirs, limit=limit, than=than)


def _faster(ours: str, theirs: str, limit: float, than: str) -> Bound:
    return Bound(relation=Relation.FASTER, ours=ours, theirs=theirs, limit=limit, than=than)


def _added(ours: str, theirs: str, limit: float, than: str) -> Bound:
    return Bound(relation=Relation.ADDED, ours=ours, theirs=theirs, limit=limit, than=than)


def _value(ours: str, limit: float) -> Bound:
    return Bound(relation=Relation.VALUE, ours=ours, limit=limit)


def _in(way: str, heap: str) -> str:
    return f"{way}, {heap}"


TARGETS: tuple[Target, ...] = (
    Target(
        what="spawn detached, plain: 4 GiB heap against 10 MiB",
        bench="spawn",
        bounds=(
            _times(_in(ways.PLAIN_DETACHED, LARGE), _in(ways.PLAIN_DETACHED, SMALL), 1.5, "with the small heap"),
            _faster(_in(ways.PLAIN_DETACHED, LARGE), _in(ways.FORK_FORK, LARGE), 100, "the fork-fork daemon at 4 GiB"),
            _times(_in(ways.PLAIN_DETACHED, SMALL), _in(ways.POSIX_SPAWN, SMALL), 2, "os.posix_spawn, small heap"),
            _times(_in(ways.PLAIN_DETACHED, LARGE), _in(ways.POSIX_SPAWN, LARGE), 2, "os.posix_spawn, large heap"),
        ),
        floor=(_in(ways.BARE, SMALL), _in(ways.BARE, LARGE)),
    ),
    Target(
        what="spawn with user, limits, cgroup (through the trampoline)",
        bench="spawn",
        bounds=(
            _times(_in(ways.FULL_CHILD, SMALL), _in(ways.POSIX_SPAWN, SMALL), 3, "os.posix_spawn, as a child"),
            _times(_in(ways.FULL_DETACHED, SMALL), _in(ways.POSIX_SPAWN, SMALL), 3, "os.posix_spawn, detached"),
        ),
    ),
    Target(
        what='run(["true"])',
        bench="run",
        bounds=(_times(run.OURS, run.SUBPROCESS, 3, "subprocess.run"),),
        floor=(run.BARE, run.BARE_CGROUP),
    ),
)
