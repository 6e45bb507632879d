"""How long does a spawn take until its exec is confirmed, beside os.posix_spawn, and does the launcher's heap matter?

Each round runs every contender once, in turn, in this process; quoted is the ratio of medians.
Usage: `bench_spawn.py [rounds] [heap GiB]`
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.facilities import Facilities
from spurproc.core.spawn.spawn import SpawnPlan, spawn

PROGRAM = "/bin/true"
WARM_UP = 20
PEER = "os.posix_spawn"
LIMITS = {resource.RLIMIT_NOFILE: (100, 200)}

# For scale: what Python programs use today. It resets no mask, gives no identity, and cannot detach.
POPEN = "subprocess.Popen"

Contender = Callable[[], Callable[[], None]]
"""Starts the program and returns what waits for its end, which is not timed."""


def peer() -> Callable[[], None]:
    """The fastest start that the standard library has: no identity, no pidfd, no clean start."""
    pid = os.posix_spawn(PROGRAM, [PROGRAM], os.environ)
    return lambda: (os.waitpid(pid, 0), None)[1]


def popen() -> Callable[[], None]:
    """The standard library's own, with a session of its own."""
    process = subprocess.Popen([PROGRAM], start_new_session=True)
    return lambda: (process.wait(), None)[1]


def ours(**fields: Any) -> Contender:
    """`spawn` with these fields of a plan."""
    plan = SpawnPlan(argv=[PROGRAM], **fields)

    def start() -> Callable[[], None]:
        spawned = spawn(plan)

        def end() -> None:
            poller = select.poll()
            poller.register(spawned.pidfd.fileno(), select.POLLIN)
            poller.poll()
            if not plan.detach:
                spawned.pidfd.wait()
            spawned.pidfd.close()

        return end

    return start


def measure(contenders: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each contender in each round."""
    took: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(WARM_UP + rounds):
        for name, start in contenders.items():
            begun = time.perf_counter_ns()
            end = start()
            if turn >= WARM_UP:
                took[name].append((time.perf_counter_ns() - begun) / 1000)
            end()
    return took


def report(took: dict[str, list[float]], base: str, label: str) -> None:
    """One line each: median, lower quartile, p99, ratio of medians to `base`."""
    for name, times in took.items():
        times.sort()
        median, first, worst = statistics.median(times), times[len(times) // 4], times[len(times) * 99 // 100]
        ratio = median / statistics.median(took[base])
        print(f"{label:>10} {name:28} median {median:7.0f} us  q1 {first:7.0f}  p99 {worst:7.0f}  x{ratio:.2f}")


def main() -> None:
    """Small heap, then large; raw numbers as JSON on the last line."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    heap_gib = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    path = f"{Facilities.current().cgroup2_mount}/bench-spawn-{os.getpid()}"
    with Cgroup.create(path) as cgroup:
        full: dict[str, Any] = {"user": "nobody", "limits": LIMITS, "cgroup": cgroup}
        contenders: dict[str, Contender] = {
            PEER: peer,
            POPEN: popen,
            "plain child": ours(),
            "plain detached": ours(detach=True),
            "user+limits+cgroup": ours(**full),
            "user+limits+cgroup detached": ours(detach=True, **full),
        }
        small = measure(contenders, rounds)
        report(small, PEER, "small heap")
        with mmap.mmap(-1, heap_gib << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as heap:
            heap.madvise(mmap.MADV_NOHUGEPAGE)
            for offset in range(0, len(heap), mmap.PAGESIZE):
                heap[offset] = 1
            large = measure(contenders, rounds)
            report(large, PEER, f"{heap_gib} GiB")
        for name in contenders:
            print(f"{heap_gib} GiB over small: {name:28} x{statistics.median(large[name]) / statistics.median(small[name]):.2f}")
        cgroup.remove(5)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    host = {"kernel": os.uname().release, "machine": os.uname().machine, "cpus": os.cpu_count(), "commit": commit}
    print(json.dumps({"host": host, "small_us": small, "large_us": large}))


if __name__ == "__main__":
    main()
