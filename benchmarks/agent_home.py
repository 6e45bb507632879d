"""Agents that are measured: `spurd` as a process of its own on a state folder on disk, gone with all that it has launched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bare import HERE
from benchmarks.noting_spurd import read_offers
from benchmarks.step_home import disk
from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.agent.service.replies import Ended
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.errors import SpurprocError
from tests.steps import Steps

_LOOK_S = 0.001
_SERVES_WITHIN_S = 60.0
_ENDS_WITHIN_S = 60.0
_AGENT = "agent"


def job_spec(*argv: str | Path, stdout: str = "/dev/null", **more: Any) -> JobSpec:
    """A job of ours."""
    words = tuple(str(word) for word in argv)
    uid, gid = os.geteuid(), os.getegid()
    return JobSpec(name="job", user="bench", uid=uid, gid=gid, argv=words, work_dir="/", stdout=stdout, **more)


class MeasuredAgent:
    """One state folder, and the agent that serves it."""

    def __init__(self, path: Path, *, cpus: int = 0) -> None:
        """`cpus`: as if the node had so many; 0: those that it has."""
        self.path = path
        self.steps = Steps(path / "steps")
        self._notes = path.with_suffix(".notes")
        self._cpus = cpus
        self.client: AgentClient
        self.process: subprocess.Popen[bytes]

    def start(self) -> float:
        """Start it; seconds until it answers who asks."""
        serve = [sys.executable, "-m", "benchmarks.noting_spurd", str(self._notes), str(self._cpus)]
        settings = ["--state-dir", str(self.path), "--log-level", "info"]
        enter = ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', _cgroup(_AGENT)]
        # An installed package has its bytecode beside it.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = str(self.path.with_suffix(".pyc"))
        begun = time.monotonic()
        with self.path.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen([*enter, *serve, *settings], cwd=HERE.parent, stderr=log, env=env)
        self.client = self._reached()
        return time.monotonic() - begun

    def _reached(self) -> AgentClient:
        deadline = time.monotonic() + _SERVES_WITHIN_S
        while True:
            try:
                client = AgentClient.connect(self.path / "control.sock")
                while not client.status().registered:
                    time.sleep(_LOOK_S)  # noqa: TID251 - nobody is told
            except SpurprocError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(_LOOK_S)  # noqa: TID251 - nobody can be told before it listens
            else:
                return client

    def submit(self, spec: JobSpec) -> int:
        """Its job."""
        return self.client.submit(spec).job_id

    def await_end(self, job: int) -> Ended:
        """How it ended, once the controller knows."""
        *_, last = self.client.wait(job)
        if not isinstance(last, Ended):
            raise TypeError(f"job {job} has not ended: {last!r}")
        return last

    def offers(self) -> Mapping[int, int]:
        """When the report of each job was offered."""
        return read_offers(self._notes)

    def memory_kib(self) -> float:
        """What it takes, with what it shares. proc_pid_status(5), VmRSS"""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def pause(self) -> None:
        """Where nothing tells that it has got further."""
        time.sleep(_LOOK_S)  # noqa: TID251 - see above

    def stop(self) -> None:
        """SIGTERM: jobs live on."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_ENDS_WITHIN_S)

    def end(self) -> None:
        """It ends, and whatever runs with it."""
        self.process.kill()
        self.process.wait()
        self.client.close()
        if (self.steps.path / "runtime").exists():
            self.steps.end_all()


def _cgroup(name: str) -> str:
    """A cgroup beside those of the steps, whose CPU time can be asked for."""
    root = find_cgroup_root()
    if root is None:
        raise RuntimeError("no cgroup2 folder that this user may write")
    path = f"{os.path.dirname(root.steps)}/{name}"
    if not os.path.isdir(path):
        Cgroup.create(path).close()
    return path


def processor_ms(name: str) -> float:
    """CPU time that a cgroup beside those of the steps has used so far. cgroup-v2.rst, "cpu.stat"."""
    line = Path(_cgroup(name), "cpu.stat").read_text(encoding="ascii").split()
    return int(line[line.index("usage_usec") + 1]) / 1000


def processors_ms() -> dict[str, float]:
    """The same of each: the agent, the supervisors with their host, and what runs in the steps."""
    return {name: processor_ms(name) for name in (_AGENT, "supervisors", "steps")}


@contextmanager
def agent(*, cpus: int = 0) -> Iterator[MeasuredAgent]:
    """One that serves, on a folder of its own."""
    with disk() as folder:
        measured = MeasuredAgent(folder / "spurd", cpus=cpus)
        measured.start()
        try:
            yield measured
        finally:
            measured.end()
