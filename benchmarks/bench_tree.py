"""What do signal_tree over 1,000 members and liveness_many over 1,000 cgroups cost beside a bare C loop with the same guards?

The C loop and the Python form take turns, round by round, on the same cgroups; medians, p99, and the median of the rounds'
ratios. Needs a writable cgroup2 mount (SPURPROC_CGROUP_ROOT chooses where). Raw results as JSON on stdout.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.tree.liveness import liveness_many
from spurproc.core.tree.members import ProcessTree
from spurproc.core.tree.signalling import signal_tree

ROUNDS = 60
WARM_UP = 5
MEMBERS = 1_000
CGROUPS = 1_000
HERE = Path(__file__).parent
# Ignores SIGTERM, so that the same members can be signalled again and again.
_MEMBERS = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        signal.pause()
print(flush=True)
signal.pause()
"""


def main() -> None:
    """Make the cgroups, measure, remove them."""
    root = find_cgroup_root()
    if root is None:
        sys.exit("cannot measure: no cgroup root that may be written")
    with tempfile.TemporaryDirectory() as folder, Cgroup.create(f"{root.steps}/bench-{os.getpid()}") as top:
        loop = Path(folder, "tree_loop")
        include = f"-I{HERE.parent / 'csrc'}"
        subprocess.run(["gcc", "-O2", include, str(HERE / "tree_loop.c"), "-o", str(loop)], check=True)
        try:
            results = _measure_signals(str(loop), top) | _measure_liveness(str(loop), top)
        finally:
            top.kill()
            top.remove(timeout_s=30)
    report = {"kernel": platform.release(), "python": platform.python_version(), "cpus": os.cpu_count(), "results": results}
    json.dump(report, sys.stdout, indent=1)
    print()


def _measure_signals(loop: str, top: Cgroup) -> dict[str, object]:
    with Cgroup.create(f"{top.path}/members") as cgroup:
        join = ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', cgroup.path]
        leader = subprocess.Popen([*join, sys.executable, "-c", _MEMBERS, str(MEMBERS)], stdout=subprocess.PIPE)
        if leader.stdout is not None:
            leader.stdout.readline()
        tree = ProcessTree(cgroup=cgroup)
        results: dict[str, object] = {}
        for number in (0, int(signal.SIGTERM)):
            bare = [loop, "signal", cgroup.path, str(number), "1"]
            once = [loop, "once", cgroup.path, str(number), "1"]
            results[f"signal_tree({number}), {MEMBERS} members"] = _compare(bare, lambda sig=number: signal_tree(tree, sig))
            results[f"signal_tree({number}) to one pass of C"] = _compare(once, lambda sig=number: signal_tree(tree, sig))
        cgroup.kill()
        cgroup.wait_empty(timeout_s=30)
        leader.communicate()
    return results


def _measure_liveness(loop: str, top: Cgroup) -> dict[str, object]:
    held = [Cgroup.create(f"{top.path}/c{number}") for number in range(CGROUPS)]
    bare = [loop, "events", "1", *(f"{cgroup.path}/cgroup.events" for cgroup in held)]
    try:
        return {f"liveness_many of {CGROUPS} cgroups": _compare(bare, lambda: liveness_many(held))}
    finally:
        for cgroup in held:
            cgroup.close()


def _compare(bare: list[str], ask: Callable[[], object]) -> dict[str, object]:
    rounds = [(_bare_ns(bare), _python_ns(ask)) for _ in range(ROUNDS + WARM_UP)][WARM_UP:]
    c_ns, python_ns = ([one[side] for one in rounds] for side in (0, 1))
    return {
        "c_median_us": round(statistics.median(c_ns) / 1000, 1),
        "python_median_us": round(statistics.median(python_ns) / 1000, 1),
        "python_p99_us": round(sorted(python_ns)[int(0.99 * len(python_ns))] / 1000, 1),
        "ratio_of_medians": round(statistics.median(python_ns) / statistics.median(c_ns), 3),
        "median_ratio": round(statistics.median(python / c for c, python in rounds), 3),
        "rounds_ns": rounds,
    }


def _bare_ns(bare: list[str]) -> int:
    # Two rounds, the second counts: the process is new, its caches are cold.
    at = bare.index("1", 1) if bare[1] == "events" else len(bare) - 1
    command = [*bare[:at], "3", *bare[at + 1 :]]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return sorted(map(int, done.stdout.split()))[1]


def _python_ns(ask: Callable[[], object]) -> int:
    taken = []
    for _ in range(3):
        start = time.perf_counter_ns()
        ask()
        taken.append(time.perf_counter_ns() - start)
    return sorted(taken)[1]


if __name__ == "__main__":
    main()
