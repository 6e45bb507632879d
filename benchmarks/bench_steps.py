"""What does a supervised step cost: memory, time at its launch and at its end, wake-ups, durable writes, an adoption?"""

from __future__ import annotations

from benchmarks.measure import Figure
from benchmarks.scale import Scale
from benchmarks.step_crowd import measure_adoption, measure_crowd
from benchmarks.step_end import measure_durable_writes, measure_end
from benchmarks.step_launch import measure_launch


def measure(scale: Scale) -> list[Figure]:
    """Times are those of a job that stamps CLOCK_MONOTONIC itself: at the first line of its main, and before its _exit.

    Each supervisor has the same job; conmon runs it in a container by runc that has a mount namespace and nothing else,
    s6-supervise as its `run`. State folders are on disk. USS: of each of `steps` supervisors at once, and of `jobs` of each peer.
    The idle supervisor that woke up most often, and their host, were watched for twice `idle_s`: proc_pid_status(5),
    voluntary_ctxt_switches.
    """
    figures = measure_launch(scale) + measure_end(scale) + measure_durable_writes()
    return figures + measure_crowd(scale) + measure_adoption(scale)
