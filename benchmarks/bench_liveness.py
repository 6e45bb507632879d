"""What does asking "does it live?" cost in Python, as a ratio to the bare system calls in C and to psutil?

Each round runs the C loop and each Python form in turn; the figures are medians over the rounds, the ratio is that of a round.
Raw results as JSON on stdout.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.process.pidfd import Pidfd
from spurproc.core.tree.liveness import liveness_many

ROUNDS = 21
COUNT = 20_000
TABLE = 1_000
SOURCE = Path(__file__).with_name("liveness_loop.c")


def main() -> None:
    """Measure one living process."""
    target = subprocess.Popen(["sleep", "600"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "liveness_loop")
            subprocess.run(["gcc", "-O2", str(SOURCE), "-o", str(program)], check=True)
            report = _measure(str(program), target.pid)
    finally:
        target.kill()
        target.wait()
    json.dump(report, sys.stdout, indent=1)
    print()


def _measure(program: str, pid: int) -> dict[str, object]:
    identity = ProcessIdentity.of(pid)
    peer = psutil.Process(pid)
    with Pidfd.open(pid) as pidfd:
        forms: dict[str, tuple[Callable[[], object], int]] = {
            "Pidfd.liveness": (pidfd.liveness, 1),
            "ProcessIdentity.liveness": (identity.liveness, 1),
            "liveness_many(1000 Pidfds)": (lambda: liveness_many([pidfd] * TABLE), TABLE),
            "liveness_many(1000 identities)": (lambda: liveness_many([identity] * TABLE), TABLE),
            "psutil is_running": (peer.is_running, 1),
        }
        rounds = [_round(program, pid, forms) for _ in range(ROUNDS + 1)][1:]
    return {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "median_ns": {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]},
        "ratio_to_c": {name: _ratio(rounds, name, "C identity" if "dentit" in name else "C pidfd") for name in forms},
        "psutil_to_pidfd": _ratio(rounds, "psutil is_running", "Pidfd.liveness"),
        "rounds": rounds,
    }


def _ratio(rounds: list[dict[str, float]], name: str, base: str) -> float:
    return round(statistics.median(one[name] / one[base] for one in rounds), 2)


def _round(program: str, pid: int, forms: dict[str, tuple[Callable[[], object], int]]) -> dict[str, float]:
    result = {f"C {kind}": _c_loop(program, kind, pid) for kind in ("pidfd", "identity")}
    for name, (ask, each) in forms.items():
        turns = COUNT // each // (20 if "psutil" in name else 1)
        result[name] = _python_loop(ask, turns) / each
    return result


def _c_loop(program: str, kind: str, pid: int) -> float:
    return float(subprocess.run([program, kind, str(pid), str(COUNT)], check=True, capture_output=True).stdout)


def _python_loop(ask: Callable[[], object], turns: int) -> float:
    loop = range(turns)
    start = time.perf_counter_ns()
    for _ in loop:
        ask()
    return (time.perf_counter_ns() - start) / turns


if __name__ == "__main__":
    main()
