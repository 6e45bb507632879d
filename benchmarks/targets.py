"""Every target, as data: the table, the raw results and the tests are made from it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from benchmarks import bench_exit as exits
from benchmarks import bench_import as imports
from benchmarks import bench_liveness as liveness
from benchmarks import bench_recorder as recorder
from benchmarks import bench_run as run
from benchmarks import bench_tree as tree
from benchmarks import spawn_ways as ways
from benchmarks import step_crowd as crowd
from benchmarks import step_end as end
from benchmarks import step_launch as started
from benchmarks.bench_spawn import LARGE, SMALL
from benchmarks.through import KEPT, LOWERED


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
    """One condition. `ours` and `theirs` name figures; `than` is how the table calls theirs, or, of ours alone, what it is."""

    relation: Relation
    ours: str
    theirs: str = ""
    limit: float
    than: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the table: OK when every bound holds.

    `also`: figures shown in the line that no bound is about. A miss is explained by its `floor` and by what was measured of the
    parts of the calls in `parts`.
    """

    what: str
    bench: str
    bounds: tuple[Bound, ...]
    also: tuple[str, ...] = ()
    floor: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def _times(ours: str, theirs: str, limit: float, than: str) -> Bound:
    return Bound(relation=Relation.TIMES, ours=ours, theirs=theirs, limit=limit, than=than)


def _faster(ours: str, theirs: str, limit: float, than: str) -> Bound:
    return Bound(relation=Relation.FASTER, ours=ours, theirs=theirs, limit=limit, than=than)


def _added(ours: str, theirs: str, limit: float, than: str) -> Bound:
    return Bound(relation=Relation.ADDED, ours=ours, theirs=theirs, limit=limit, than=than)


def _value(ours: str, limit: float, of_what: str) -> Bound:
    return Bound(relation=Relation.VALUE, ours=ours, limit=limit, than=of_what)


_SENT = (tree.ASK, tree.IGNORED)


def _in(way: str, heap: str) -> str:
    return f"{way}, {heap}"


TARGETS: tuple[Target, ...] = (
    Target(
        what="liveness of a kept `Pidfd`",
        bench="liveness",
        bounds=(
            _times(liveness.HELD, liveness.BARE_HELD, 2, "C"),
            _faster(liveness.HELD, liveness.PSUTIL, 20, "psutil is_running"),
        ),
        floor=(liveness.BARE_HELD,),
        parts=(liveness.HELD,),
    ),
    Target(
        what="liveness of a stored identity",
        bench="liveness",
        bounds=(
            _times(liveness.STORED, liveness.BARE_STORED, 2.5, "C"),
            _faster(liveness.STORED, liveness.PSUTIL, 8, "psutil is_running"),
        ),
        floor=(liveness.BARE_STORED,),
    ),
    Target(
        what="`liveness_many`, 1,000 stored identities; 1,000 cgroups",
        bench="liveness",
        bounds=(
            _times(liveness.MANY_IDENTITIES, liveness.BARE_IDENTITIES, 1.25, "C, identities"),
            _times(liveness.MANY_CGROUPS, liveness.BARE_CGROUPS, 1.25, "C, cgroups"),
        ),
        floor=(liveness.BARE_IDENTITIES, liveness.BARE_CGROUPS),
        parts=(liveness.MANY_IDENTITIES, liveness.MANY_CGROUPS),
    ),
    Target(
        what="signal_tree of 1,000 members, signal 0 and SIGTERM",
        bench="tree",
        bounds=(
            *(_times(tree.named(tree.OURS, sent), tree.named(tree.BARE, sent), 1.3, f"C, {sent}") for sent in _SENT),
            *(_faster(tree.named(tree.OURS, sent), tree.named(tree.PSUTIL, sent), 10, f"psutil, {sent}") for sent in _SENT),
            _times(tree.named(tree.OURS, tree.HANDLED), tree.named(tree.BARE, tree.HANDLED), 1.3, f"C, {tree.HANDLED}"),
        ),
        also=(tree.named(tree.PSUTIL, tree.HANDLED),),
        floor=tuple(tree.named(tree.BARE, asked) for asked in (tree.ASK, tree.IGNORED, tree.HANDLED)),
    ),
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
        parts=(ways.PLAIN_DETACHED,),
    ),
    Target(
        what="spawn with user, limits, cgroup (through the trampoline)",
        bench="spawn",
        bounds=(
            _times(_in(ways.FULL_CHILD, SMALL), _in(ways.POSIX_SPAWN, SMALL), 3, "os.posix_spawn, as a child"),
            _times(_in(ways.FULL_DETACHED, SMALL), _in(ways.POSIX_SPAWN, SMALL), 3, "os.posix_spawn, detached"),
        ),
        floor=(_in(LOWERED, SMALL),),
        parts=(ways.FULL_CHILD,),
    ),
    Target(
        what="exit noticed by a non-parent",
        bench="exit",
        bounds=(
            _times(exits.WAIT, exits.BARE_LEARN, 2, "C, from the end to its status known"),
            _value(exits.wakeups(exits.WAIT), 0, "wake-ups of an idle wait"),
            _value(exits.wakeups(exits.WAIT_ASYNC), 0, "wake-ups of an idle wait_async"),
        ),
        also=(exits.WAIT_ASYNC, exits.BARE_POLL),
        floor=(exits.BARE_POLL, exits.BARE_LEARN, exits.POLLS),
        parts=(exits.WAIT,),
    ),
    Target(
        what="`import spurproc`",
        bench="import",
        bounds=(
            _added(imports.IMPORT, imports.BARE, 30, "bare Python"),
            _value(imports.HEAVY, 0, "of asyncio and subprocess loaded"),
        ),
        also=(imports.ALL_NAMES,),
        floor=(imports.BARE,),
        parts=(imports.IMPORT, imports.ALL_NAMES),
    ),
    Target(
        what="recorder",
        bench="recorder",
        bounds=(
            _value(recorder.USS, 64, "USS a job"),
            _added(recorder.RECORDED_MEMORY, recorder.UNRECORDED, 300, "the same launch without it"),
        ),
        also=(recorder.USS_TINI, recorder.USS_S6, recorder.RECORDED_DISK),
        floor=(LOWERED, KEPT, recorder.SYNCS),
        parts=(recorder.RECORDED_MEMORY,),
    ),
    Target(
        what='run(["true"])',
        bench="run",
        bounds=(_times(run.OURS, run.SUBPROCESS, 3, "subprocess.run"),),
        floor=(run.BARE, run.BARE_CGROUP),
        parts=(run.OURS,),
    ),
    Target(
        what="memory of a supervised step, on Python 3.11",
        bench="steps",
        bounds=(_value(crowd.USS, 1024, "USS a step"),),
        also=(crowd.USS_HOST, *crowd.USS_OF_PEER.values()),
        floor=(crowd.USS_BARE,),
        parts=(crowd.USS,),
    ),
    Target(
        what="launch of a supervised step, everything durable",
        bench="steps",
        bounds=(_value(started.LAUNCH, 4, "to the leader's main"),),
        also=tuple(started.LAUNCH_OF_PEER.values()),
        floor=(KEPT, recorder.SYNCS),
        parts=(started.LAUNCH,),
    ),
    Target(
        what="end of a supervised step",
        bench="steps",
        bounds=(
            _value(end.RECORDED, 1000, "to its durable record"),
            _added(end.TOLD, end.RECORDED, 1000, "that until a client that waits is told"),
        ),
        also=tuple(end.RECORDED_BY_PEER.values()),
        floor=(end.APPEND,),
        parts=(end.RECORDED, end.TOLD),
    ),
    Target(
        what="adoption of live steps",
        bench="steps",
        bounds=(
            _value(crowd.ADOPT, 200, "a step"),
            _times(crowd.ADOPT, crowd.ADOPT_QUARTER, 1.25, "as many for each as of a quarter of them"),
        ),
        also=(crowd.ADOPT_HALF,),
    ),
    Target(
        what="idle supervisors and their host",
        bench="steps",
        bounds=(_value(crowd.IDLE_SUPERVISOR, 0, "wake-ups of a supervisor"), _value(crowd.IDLE_HOST, 0, "wake-ups of the host")),
    ),
    Target(
        what="durable writes of a step",
        bench="steps",
        bounds=(
            _value(end.BEFORE_START, 3, "before `start`"),
            _value(end.EACH, 1, "for each record that has to be durable"),
        ),
    ),
)
