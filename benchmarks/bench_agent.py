"""What does the agent cost: a job on its way, many of them one after the other, a restart with a thousand, memory, a cancel?"""

from __future__ import annotations

from benchmarks.agent_cancel import measure_cancel
from benchmarks.agent_crowd import measure_crowd
from benchmarks.agent_load import measure_sustained, measure_way
from benchmarks.measure import Figure
from benchmarks.scale import Scale


def measure(scale: Scale) -> list[Figure]:
    """`spurd serve` with its own queue, on a state folder on disk, everything durable, without hooks; asked over its socket.

    A job takes one CPU, so as many run at once as the machine has. Times are those of a job that stamps CLOCK_MONOTONIC itself,
    at the first line of its main and before its _exit, and those at which the agent has offered a report. "Bare" is the same
    step by `spurproc.launch`, without an agent. CPU time: that of the cgroups. Memory: VmRSS of the agent, which
    has launched the last share of what is live and taken up the others.
    """
    return measure_sustained(scale) + measure_way(scale) + measure_crowd(scale) + measure_cancel(scale)
