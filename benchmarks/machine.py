"""What a run ran on: without it a figure says nothing."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.bare import HERE

PACKAGES = ("spurproc", "cffi", "psutil", "pidfd")
Facts = dict[str, str | int | float | bool | None]


def machine_facts() -> Facts:
    """Kernel, CPU, Python, commit and the like, as plain values. Reads only."""
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "huge_pages": _bracketed("/sys/kernel/mm/transparent_hugepage/enabled"),
        "root": os.geteuid() == 0,
        "python": platform.python_version(),
        "compiler": _output("gcc", "--version").partition("\n")[0],
        "commit": _output("git", "rev-parse", "HEAD"),
        "dirty": bool(_output("git", "status", "--porcelain", "--untracked-files=no")),
        "load_before": load_average(),
        **{package: _version(package) for package in PACKAGES},
    }


def load_average() -> float:
    """Over the last minute. proc_loadavg(5)"""
    return round(os.getloadavg()[0], 2)


def _field(path: str, name: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            found = (line.partition(":")[2].strip() for line in file if line.startswith(name))
            return next(found, "")
    except OSError:
        return ""


def _bracketed(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").partition("[")[2].partition("]")[0]
    except OSError:
        return ""


def _output(*command: str) -> str:
    """What it says; empty where it is not here, or this is no repository."""
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def command_line() -> str:
    """How this run was started, for the results."""
    return " ".join(["python -m benchmarks", *sys.argv[1:]])
