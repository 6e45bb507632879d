"""Agents for tests: `spurd` as a process of its own, on a state folder of the test's own, and all of it gone when it is over."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from spurproc import EventKind, RecordedRun, SpurprocError, Step
from spurproc.agent.jobs.job_spec import JobSpec
from spurproc.core.recorded.watch import FolderWatch, Watch, wait_for
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import encode
from spurproc.proto.runtime_id import BATCH_STEP, RuntimeId
from tests.agent_values import job_spec
from tests.cgroup_folder import base, session_folder
from tests.releases import Site
from tests.spurd_program import CPUS_VARIABLE, CRASH_VARIABLE, DOOR, ODD_VARIABLE, REMOTE_VARIABLE, ROOT_VARIABLE
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps

_ROOT = Path(__file__).parent.parent


def _saying(lines: list[str], event: str) -> list[str]:
    said = event if " " not in event else f'"{event}"'
    return [line for line in lines if f"event={said}" in line]


@contextmanager
def watched(path: Path) -> Iterator[FolderWatch]:
    """Each change in a folder."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        watch = FolderWatch(fd)
    finally:
        os.close(fd)
    with closing(watch):
        yield watch


def await_change(watch: FolderWatch) -> None:
    """Block until there is one that was not cleared, for a second at most."""
    wait_for(Watch(entries=((watch.fileno(), select.POLLIN),), timeout_s=1.0))
    watch.clear()


class Agents:
    """One state folder, and the agents that serve it one after the other."""

    program = "tests.spurd_program"

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, str] | None = None,
        *,
        cpus: int | None = None,
        odd: bool = False,
        root: str | None = None,
        remote: str | None = None,
    ) -> None:
        """`settings`: by the names of their flags without the dashes. `cpus`: as if the node had so many.

        `odd`: its controller does as files beside the folder say, see `spurd_program`. `root`: where the node is read.
        `remote`: where the controller listens that it takes its work from.
        """
        self.path = path
        self.settings = {"state-dir": str(path), "memory-bytes": str(1 << 30)} | dict(settings or {})
        self.env = {} if cpus is None else {CPUS_VARIABLE: str(cpus)}
        if root is not None:
            self.env[ROOT_VARIABLE] = root
        if remote is not None:
            self.env[REMOTE_VARIABLE] = remote
        if odd:
            self.env[ODD_VARIABLE] = str(path.parent)
        self.steps = Steps(path / "steps")
        self.process: subprocess.Popen[bytes] | None = None
        self.log = path.with_name(f"{path.name}.log")
        self.release: Site | None = None
        """Of which agents are started from now on; None: of the one that is tested."""
        self._releases: set[Site] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.kill()
        finally:
            if (self.steps.path / "runtime").exists():
                self.steps.end_all()
                for release in self._releases:
                    release.end_all(self.steps.path)
            self._end_hooks()
        if kind is not None and self.log.exists():
            sys.stderr.write(self.log.read_text())

    def _end_hooks(self) -> None:
        hooks = self.path / "hooks"
        for folder in hooks.iterdir() if hooks.exists() else ():
            with suppress(SpurprocError), RecordedRun.open(folder) as run:
                with suppress(SpurprocError):
                    run.terminate(KILL_AT_ONCE)
                run.remove(WAIT_S)
        # One whose folder was removed last: who is killed then leaves it, empty, to the next that makes one there.
        for cgroup in session_folder().glob("root/*/*/") if base() is not None else ():
            if b"populated 0" in (cgroup / "cgroup.events").read_bytes():
                with suppress(OSError):  # whose it was has removed it
                    cgroup.rmdir()

    def start(self, *, crash: str | None = None, **settings: str) -> Self:
        """Start one, and return once it serves."""
        self.spawn(settings, crash=crash)
        self.ask("attempts")
        return self

    def spawn(
        self, settings: Mapping[str, str] = MappingProxyType({}), *, crash: str | None = None, until_ready: bool = True
    ) -> subprocess.Popen[bytes]:
        """Start one. It says in a pipe that it serves, or ends: that is waited for, unless it is to stand still before."""
        if self.release is not None:
            self._releases.add(self.release)
        ready, told = os.pipe()
        flags = [
            word for name, value in (self.settings | dict(settings)).items() for word in (f"--{name.replace('_', '-')}", value)
        ]
        env = (
            os.environ
            | self.env
            | ({} if self.release is None else self.release.environment)
            | ({} if crash is None else {CRASH_VARIABLE: crash})
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.program, "--log-level", "debug", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env=env | {"SPURD_TEST_READY": str(told)},
                pass_fds=(told,),
            )
        os.close(told)
        with os.fdopen(ready, "rb") as pipe:
            if until_ready:
                pipe.read()
        return self.process

    def ask(self, line: str | bytes) -> Any:
        """What the agent answers. Raises AssertionError for an error of its own, ConnectionError where it is gone."""
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(WAIT_S)
            end.connect(str(self.path / DOOR))
            end.sendall((line.encode() if isinstance(line, str) else line) + b"\n")
            with end.makefile("rb") as stream:
                content = stream.readline()
        if not content:
            raise ConnectionError(f"the agent ended while it was asked: {line!r}")
        answer = json.loads(content)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def submit(self, script: str | None = None, **more: Any) -> int:
        """A job; the text of its script behind `#!/bin/sh`."""
        spec: JobSpec = job_spec(**(more if script is None else {"script": f"#!/bin/sh\n{script}\n".encode()} | more))
        return int(self.ask(b"submit " + encode(spec)))

    def ended(self, job: int) -> str:
        """How it ended, once the controller knows."""
        return str(self.ask(f"ended {job}")["end"])

    def until(self, attempt: str, *states: str) -> str:
        """Block until it stands in one of these states."""
        return str(self.ask(f"until {attempt} {' '.join(states)}"))

    def until_executed(self, job: int) -> None:
        """Block until its program runs: an agent does not wait for a start that takes its time, and `running` does not say so."""
        step = Step.open(self.steps.path, step_of(job))
        assert any(event.kind is EventKind.LAUNCHED for event in step.events(follow=True))

    def leader(self, job: int, attempt: int = 1) -> int:
        """The pid of its first process."""
        leader = self.steps.descriptor_of(job, attempt, BATCH_STEP).leader
        assert leader is not None
        return leader.pid

    def steps_ended(self, *jobs: int) -> None:
        """Block until the steps of their first attempts are over; nobody else need be there."""
        for job in jobs:
            Step.open(self.steps.path, step_of(job)).wait(WAIT_S, completed=True)

    def hook_ended(self, name: str) -> None:
        """Block until it is; nobody else need be there."""
        with RecordedRun.open(self.path / "hooks" / name) as run:
            run.wait(WAIT_S)

    def kill_hook(self, name: str) -> None:
        """Its recorder, and then its leader."""
        with RecordedRun.open(self.path / "hooks" / name) as run:
            victims = [run.recorder, run.leader]
        self.steps.kill(*(victim for victim in victims if victim is not None))

    def folders(self) -> dict[str, list[str]]:
        """What stands in each folder of the state folder."""
        names = {"steps": "steps/runtime", "spool": "spool", "scratch": "scratch", "hooks": "hooks"}
        return {name: sorted(os.listdir(self.path / below)) for name, below in names.items()}

    def kill(self) -> None:
        """SIGKILL, and reap it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(WAIT_S)
            self.process = None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(WAIT_S)
        self.process = None
        return code

    def await_stopped(self) -> None:
        """Until it has stopped itself, or was stopped."""
        assert self.process is not None
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def freeze(self) -> None:
        """SIGSTOP, and back once it stands."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.await_stopped()

    def thaw(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def facts(self, event: str) -> list[str]:
        """The lines of the log that say this."""
        return _saying(self.log.read_text().splitlines(), event)

    def await_fact(self, event: str) -> str:
        """The line of the log that says this, once it is there."""
        deadline = time.monotonic() + WAIT_S
        with watched(self.log.parent) as watch, self.log.open() as log:  # kept open: to close it would be a change as well
            said: list[str] = []
            while not (found := _saying(said, event)):
                assert time.monotonic() < deadline, f"nobody has said {event!r}"
                said += log.read().splitlines()
                if not _saying(said, event):
                    await_change(watch)
        return found[-1]

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self.process is not None
        code = self.process.wait(WAIT_S)
        self.process = None
        return code


NOTHING_LEFT: dict[str, list[str]] = {"steps": [], "spool": [], "scratch": [], "hooks": []}


def step_of(job: int, attempt: int = 1) -> RuntimeId:
    """Of its script."""
    return AttemptId(job, attempt).step(BATCH_STEP)
