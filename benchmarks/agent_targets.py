"""The targets of the agent."""

from __future__ import annotations

from benchmarks import agent_cancel as cancel
from benchmarks import agent_crowd as crowd
from benchmarks import agent_load as load
from benchmarks.bench_recorder import SYNCS
from benchmarks.step_launch import LAUNCH
from benchmarks.target import Target, least, times, value

AGENT_TARGETS: tuple[Target, ...] = (
    Target(
        what="start to serving with 1,000 live steps",
        bench="agent",
        bounds=(
            value(crowd.STARTED["all of them"], 1000, "with all of them live"),
            times(
                crowd.EACH_UP_TO_TWICE,
                crowd.EACH_UP_TO_ALL,
                1.25,
                "as long for each of twice as many as for each of the last half of them",
            ),
        ),
        also=tuple(crowd.STARTED.values()),
        floor=(crowd.STARTED["no step"],),
    ),
    Target(
        what="submit to leader exec'd, ten jobs a second",
        bench="agent",
        bounds=(value(load.STARTED, 20, "to the leader's main"),),
        also=(LAUNCH,),
        floor=(LAUNCH, SYNCS),
        parts=(load.STARTED,),
    ),
    Target(
        what="sustained `true` jobs, every record durable, no hooks",
        bench="agent",
        bounds=(least(load.SUSTAINED, 50, "on this machine"),),
        also=(load.BARE_TWO, load.BARE_FOUR),
        floor=(load.BARE_TWO, load.BARE_FOUR),
        parts=(load.SUSTAINED,),
    ),
    Target(
        what="memory of the agent: 45 MiB, and 10 KiB a job",
        bench="agent",
        bounds=(value(crowd.BEYOND, 45 * 1024, "beside 10 KiB for each of 1,000 live jobs"),),
        also=(*crowd.MEMORY.values(), crowd.OF_A_JOB),
    ),
    Target(
        what="cancel of a 1,000-process tree to proven empty, SIGKILL alone",
        bench="agent",
        bounds=(times(cancel.CANCELLED, cancel.BARE, 1.3, "bare cgroup.kill until empty"),),
        floor=(cancel.BARE,),
        parts=(cancel.CANCELLED,),
    ),
    Target(
        what="end of a job to its report offered, no hooks",
        bench="agent",
        bounds=(value(load.OFFERED, 15, "to its report offered"),),
        also=(load.TOLD,),
        floor=(load.BARE_TOLD,),
    ),
)
