"""One spurd in a folder of its own, for the demo: started, asked by its own commands, killed, started again."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import spurproc

SPURD = Path(sys.executable).with_name("spurd")
START_WITHIN_S = 60.0
KILL_AT_ONCE = spurproc.KillPlan(steps=((signal.SIGKILL, None),))


class Agent:
    """The agent of one state folder, which is made below `folder`. Close it: whatever still runs by then is ended."""

    def __init__(self, folder: Path, token: str) -> None:
        """`token` goes into the environment of each job, so that `living` knows all that descends from them."""
        self.state = folder / "state"
        self.token = token
        # Two at most, so that some jobs have to wait for others.
        self._cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
        self._log = folder / "spurd.log"
        self._notify = folder / "notify"
        self._process: spurproc.Spawned | None = None

    def start(self) -> None:
        """Start it, and return once it says that it serves. Source: sd_notify(3), "READY=1"."""
        self._notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said:
            said.bind(str(self._notify))
            self._process = self._spawn(self._log, {"NOTIFY_SOCKET": str(self._notify)})
            while not self._says_ready(said, self._process.pidfd):
                pass

    def _says_ready(self, said: socket.socket, pidfd: spurproc.Pidfd) -> bool:
        readable, _, _ = select.select([said.fileno(), pidfd.fileno()], [], [], START_WITHIN_S)
        if said.fileno() not in readable:
            raise SystemExit(f"demo: spurd does not serve; it said:\n{self.said()}")
        return b"READY=1" in said.recv(4096)

    def _spawn(self, log: Path, more: dict[str, str]) -> spurproc.Spawned:
        argv = (SPURD, "serve", "--state-dir", self.state, "--cpus", self._cpus)
        return spurproc.spawn(spurproc.SpawnPlan(argv=argv, stderr=log, env={**os.environ, **more}))

    def kill(self) -> spurproc.ExitInfo:
        """SIGKILL it, and nobody else. How it ended."""
        return self._end(signal.SIGKILL)

    def stop(self) -> spurproc.ExitInfo:
        """Tell it to end. How it ended."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> spurproc.ExitInfo:
        process, self._process = self._process, None
        if process is None:
            raise SystemExit("demo: there is no spurd")
        with process.pidfd as pidfd:
            pidfd.send_signal(number)
            return pidfd.wait(START_WITHIN_S)

    def second(self) -> spurproc.ExitInfo:
        """Start another one on the same folder. How that one ended."""
        with self._spawn(self._log.with_name("second.log"), {}).pidfd as pidfd:
            return pidfd.wait(START_WITHIN_S)

    def said(self) -> str:
        """Its log."""
        return self._log.read_text(errors="replace")

    def ask(self, command: str, *arguments: str | Path) -> dict[str, Any]:
        """What one of its commands answers. Ends the demo where it fails."""
        argv = [SPURD, command, "--json", "--state-dir", self.state, *arguments]
        done = spurproc.run(argv, timeout_s=START_WITHIN_S, capture=True)
        if not done.succeeded:
            raise SystemExit(f"demo: spurd {command}: {done}: {(done.stderr or b'').decode()}")
        answer: dict[str, Any] = json.loads(done.stdout or b"")
        return answer

    def submit(self, script: Path, output: Path) -> int:
        """A job that runs in the clone, ended by SIGTERM and half a second later by SIGKILL if somebody cancels it."""
        options = ("--kill-plan", "SIGTERM:0.5,SIGKILL", "--env", f"SPURPROC_DEMO={self.token}", "--output", output)
        return int(self.ask("submit", *options, script)["job_id"])

    def await_end(self, job: int) -> int:
        """The code with which `spurd wait` passes on how the job ended."""
        waited = spurproc.run([SPURD, "wait", "--state-dir", self.state, str(job)], timeout_s=600, capture=True)
        return waited.returncode

    def await_running(self, job: int) -> None:
        """Block until spurd says that it runs, or it has ended already."""
        from spurproc.agent.cli.connection import AgentClient  # noqa: PLC0415 - an extra

        with AgentClient.connect(self.state / "control.sock") as client:
            for standing in client.wait(job, timeout_s=START_WITHIN_S):
                if standing.job.phase == "running":
                    return

    def steps(self) -> dict[int, spurproc.Step]:
        """The steps that there are now, by their jobs. They are found without an agent."""
        if not (self.state / "steps").is_dir():
            return {}
        return {step.runtime_id.job_id: step for step in spurproc.adopt(self.state / "steps").steps}

    def living(self) -> int:
        """How many processes live that descend from any job of this demo, by their environment in /proc."""
        wanted = f"SPURPROC_DEMO={self.token}".encode()
        return sum(wanted in _environment(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit())

    def close(self) -> None:
        """End what an interrupted demo has left. May be called twice."""
        if self._process is not None:
            self.kill()
        for step in self.steps().values():
            step.terminate(KILL_AT_ONCE)


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return []
