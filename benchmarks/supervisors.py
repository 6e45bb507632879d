"""Small supervisors, one process a job, whose memory is compared: ours, tini and s6-supervise."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.bare import program
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan

_LOOK_S = 0.01
_START_TIMEOUT_S = 10.0


def uss_kib(pid: int) -> float:
    """The memory that only this process has, in KiB: what would be free without it. proc_pid_smaps(5), Private_ of both kinds."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


@contextmanager
def recorders(jobs: int, folder: Path) -> Iterator[list[int]]:
    """The pids of the recorders of `jobs` live jobs."""
    hold_fd, held_fd = os.pipe()
    plan = SpawnPlan(argv=[program("members"), "1"], stdin=hold_fd)
    runs = [launch_recorded(plan, folder / f"recorded-{number}") for number in range(jobs)]
    os.close(hold_fd)
    try:
        yield [run.recorder.pid for run in runs if run.recorder is not None]
    finally:
        os.close(held_fd)
        for run in runs:
            run.wait()
            run.remove()
            run.close()


@contextmanager
def tinis(jobs: int, folder: Path) -> Iterator[list[int]]:
    """The pids of as many `tini`, Debian's package of that name."""
    command = [shutil.which("tini") or "tini", "-s", "--", str(program("members")), "1"]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(jobs)]
    try:
        for one in started:
            if one.stdout is not None:
                one.stdout.read(1)
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.communicate()


@contextmanager
def s6_supervises(jobs: int, folder: Path) -> Iterator[list[int]]:
    """The pids of as many `s6-supervise`, Debian's package s6."""
    command = shutil.which("s6-supervise") or "s6-supervise"
    with ExitStack() as stack:
        started = []
        for number in range(jobs):
            service = folder / f"s6-{number}"
            service.mkdir()
            (service / "run").write_text("#!/bin/sh\nexec sleep 600\n", encoding="ascii")
            (service / "run").chmod(0o755)
            started.append(subprocess.Popen([command, str(service)], stderr=subprocess.DEVNULL))
            stack.callback(started[-1].wait)
            stack.callback(started[-1].terminate)  # it ends its job and itself
        for one in started:
            _await_job(one.pid, "sleep")
        yield [one.pid for one in started]


def _await_job(pid: int, name: str) -> None:
    """Until its child has become the job. s6-supervise tells nobody."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        if any(Path(f"/proc/{child}/comm").read_text(encoding="ascii").strip() == name for child in children):
            return
        time.sleep(_LOOK_S)  # noqa: TID251 - nothing says when
    raise TimeoutError(f"process {pid} has no child {name}")
