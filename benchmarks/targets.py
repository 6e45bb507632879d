"""Every target, as data: the table, the raw results and the tests are made from it."""

from __future__ import annotations

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
from benchmarks.agent_targets import AGENT_TARGETS
from benchmarks.bench_spawn import LARGE, SMALL
from benchmarks.target import Target, added, faster, times, value
from benchmarks.through import KEPT, LOWERED

_SENT = (tree.ASK, tree.IGNORED)


def _in(way: str, heap: str) -> str:
    return f"{way}, {heap}"


TARGETS: tuple[Target, ...] = (
    Target(
        what="liveness of a kept `Pidfd`",
        bench="liveness",
        bounds=(
            times(liveness.HELD, liveness.BARE_HELD, 2, "C"),
            faster(liveness.HELD, liveness.PSUTIL, 20, "psutil is_running"),
        ),
        floor=(liveness.BARE_HELD,),
        parts=(liveness.HELD,),
    ),
    Target(
        what="liveness of a stored identity",
        bench="liveness",
        bounds=(
            times(liveness.STORED, liveness.BARE_STORED, 2.5, "C"),
            faster(liveness.STORED, liveness.PSUTIL, 8, "psutil is_running"),
        ),
        floor=(liveness.BARE_STORED,),
    ),
    Target(
        what="`liveness_many`, 1,000 stored identities; 1,000 cgroups",
        bench="liveness",
        bounds=(
            times(liveness.MANY_IDENTITIES, liveness.BARE_IDENTITIES, 1.25, "C, identities"),
            times(liveness.MANY_CGROUPS, liveness.BARE_CGROUPS, 1.25, "C, cgroups"),
        ),
        floor=(liveness.BARE_IDENTITIES, liveness.BARE_CGROUPS),
        parts=(liveness.MANY_IDENTITIES, liveness.MANY_CGROUPS),
    ),
    Target(
        what="signal_tree of 1,000 members, signal 0 and SIGTERM",
        bench="tree",
        bounds=(
            *(times(tree.named(tree.OURS, sent), tree.named(tree.BARE, sent), 1.3, f"C, {sent}") for sent in _SENT),
            *(faster(tree.named(tree.OURS, sent), tree.named(tree.PSUTIL, sent), 10, f"psutil, {sent}") for sent in _SENT),
            times(tree.named(tree.OURS, tree.HANDLED), tree.named(tree.BARE, tree.HANDLED), 1.3, f"C, {tree.HANDLED}"),
        ),
        also=(tree.named(tree.PSUTIL, tree.HANDLED),),
        floor=tuple(tree.named(tree.BARE, asked) for asked in (tree.ASK, tree.IGNORED, tree.HANDLED)),
    ),
    Target(
        what="spawn detached, plain: 4 GiB heap against 10 MiB",
        bench="spawn",
        bounds=(
            times(_in(ways.PLAIN_DETACHED, LARGE), _in(ways.PLAIN_DETACHED, SMALL), 1.5, "with the small heap"),
            faster(_in(ways.PLAIN_DETACHED, LARGE), _in(ways.FORK_FORK, LARGE), 100, "the fork-fork daemon at 4 GiB"),
            times(_in(ways.PLAIN_DETACHED, SMALL), _in(ways.POSIX_SPAWN, SMALL), 2, "os.posix_spawn, small heap"),
            times(_in(ways.PLAIN_DETACHED, LARGE), _in(ways.POSIX_SPAWN, LARGE), 2, "os.posix_spawn, large heap"),
        ),
        floor=(_in(ways.BARE, SMALL), _in(ways.BARE, LARGE)),
        parts=(ways.PLAIN_DETACHED,),
    ),
    Target(
        what="spawn with user, limits, cgroup (through the trampoline)",
        bench="spawn",
        bounds=(
            times(_in(ways.FULL_CHILD, SMALL), _in(ways.POSIX_SPAWN, SMALL), 3, "os.posix_spawn, as a child"),
            times(_in(ways.FULL_DETACHED, SMALL), _in(ways.POSIX_SPAWN, SMALL), 3, "os.posix_spawn, detached"),
        ),
        floor=(_in(LOWERED, SMALL),),
        parts=(ways.FULL_CHILD,),
    ),
    Target(
        what="exit noticed by a non-parent",
        bench="exit",
        bounds=(
            times(exits.WAIT, exits.BARE_LEARN, 2, "C, from the end to its status known"),
            value(exits.wakeups(exits.WAIT), 0, "wake-ups of an idle wait"),
            value(exits.wakeups(exits.WAIT_ASYNC), 0, "wake-ups of an idle wait_async"),
        ),
        also=(exits.WAIT_ASYNC, exits.BARE_POLL),
        floor=(exits.BARE_POLL, exits.BARE_LEARN, exits.POLLS),
        parts=(exits.WAIT,),
    ),
    Target(
        what="`import spurproc`",
        bench="import",
        bounds=(
            added(imports.IMPORT, imports.BARE, 30, "bare Python"),
            value(imports.HEAVY, 0, "of asyncio and subprocess loaded"),
        ),
        also=(imports.ALL_NAMES,),
        floor=(imports.BARE,),
        parts=(imports.IMPORT, imports.ALL_NAMES),
    ),
    Target(
        what="recorder",
        bench="recorder",
        bounds=(
            value(recorder.USS, 64, "USS a job"),
            added(recorder.RECORDED_MEMORY, recorder.UNRECORDED, 300, "the same launch without it"),
        ),
        also=(recorder.USS_TINI, recorder.USS_S6, recorder.RECORDED_DISK),
        floor=(LOWERED, KEPT, recorder.SYNCS),
        parts=(recorder.RECORDED_MEMORY,),
    ),
    Target(
        what='run(["true"])',
        bench="run",
        bounds=(times(run.OURS, run.SUBPROCESS, 3, "subprocess.run"),),
        floor=(run.BARE, run.BARE_CGROUP),
        parts=(run.OURS,),
    ),
    Target(
        what="memory of a supervised step, on Python 3.11",
        bench="steps",
        bounds=(value(crowd.USS, 1024, "USS a step"),),
        also=(crowd.USS_HOST, *crowd.USS_OF_PEER.values()),
        floor=(crowd.USS_BARE,),
        parts=(crowd.USS,),
    ),
    Target(
        what="launch of a supervised step, everything durable",
        bench="steps",
        bounds=(value(started.LAUNCH, 4, "to the leader's main"),),
        also=tuple(started.LAUNCH_OF_PEER.values()),
        floor=(KEPT, recorder.SYNCS),
        parts=(started.LAUNCH,),
    ),
    Target(
        what="end of a supervised step",
        bench="steps",
        bounds=(
            value(end.RECORDED, 1000, "to its durable record"),
            added(end.TOLD, end.RECORDED, 1000, "that until a client that waits is told"),
        ),
        also=tuple(end.RECORDED_BY_PEER.values()),
        floor=(end.APPEND,),
        parts=(end.RECORDED, end.TOLD),
    ),
    Target(
        what="adoption of live steps",
        bench="steps",
        bounds=(
            value(crowd.ADOPT, 200, "a step"),
            times(crowd.ADOPT, crowd.ADOPT_QUARTER, 1.25, "as many for each as of a quarter of them"),
        ),
        also=(crowd.ADOPT_HALF,),
    ),
    Target(
        what="idle supervisors and their host",
        bench="steps",
        bounds=(value(crowd.IDLE_SUPERVISOR, 0, "wake-ups of a supervisor"), value(crowd.IDLE_HOST, 0, "wake-ups of the host")),
    ),
    Target(
        what="durable writes of a step",
        bench="steps",
        bounds=(
            value(end.BEFORE_START, 3, "before `start`"),
            value(end.EACH, 1, "for each record that has to be durable"),
        ),
    ),
    *AGENT_TARGETS,
)
