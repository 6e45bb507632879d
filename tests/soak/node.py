"""One node under test: its agent on a small disk of its own, its clock, who runs its steps, and strangers who take dead pids."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spurproc import AlreadyGone, Liveness, ProcessIdentity, SpurprocError
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.step_folder import StateFolder
from tests.agents import Agents
from tests.bystander import Bystander
from tests.relatives import give_next
from tests.soak.clock import VARIABLE, SteppedClock
from tests.soak.jobs import CPUS, GPUS, Job
from tests.spurd_program import AGAIN_VARIABLE, DOOR, GPUS_VARIABLE

_DISK_BYTES = 48 << 20
_STRANGERS_LAST = 12


class Refused(Exception):
    """The agent has answered that it will not, or cannot now."""


class Node:
    """Entered in a mount and pid namespace of the test's own: it mounts, and gives pids away."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self.facts, self.disk = path / "facts", path / "disk"
        self.facts.mkdir()
        self.disk.mkdir()
        self.clock = SteppedClock(path / "clock")
        self.full = False
        self.strangers: list[Bystander] = []
        self._held = ExitStack()
        hooks = {f"{name}-argv": f"/bin/sh {self._hook(name)}" for name in ("prolog", "epilog")}
        env = {VARIABLE: str(self.clock.path), GPUS_VARIABLE: str(GPUS), AGAIN_VARIABLE: "0.2"}
        settings = hooks | {"heartbeat-interval-s": "1"}
        self.agent = Agents(self.disk / "state", settings, cpus=CPUS)
        self.agent.env |= env
        self.agent.program = "tests.soak.program"
        self.agent.log = path / "spurd.log"

    def _hook(self, name: str) -> Path:
        script = self.path / name
        script.write_text(f"echo {name} $SPURD_JOB_ID.$SPURD_RUN_ATTEMPT >>{self.facts}/hooks\n")
        return script

    def __enter__(self) -> Self:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "soak", str(self.disk)], check=True)
        self._held.callback(subprocess.run, ["umount", "--lazy", str(self.disk)], check=True)
        self._held.enter_context(self.agent)
        self.stranger()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for stranger in self.strangers:
            stranger.close()
        self.free()
        self._held.__exit__(kind, value, trace)

    # Its agent.

    def start(self) -> bool:
        """A new one, once there is none. On a full disk it may refuse to serve; then this is false."""
        if self.agent.process is None:
            self.agent.spawn()
        try:
            self.ask("attempts")
        except ConnectionError:
            assert self.agent.process is not None
            code = self.agent.wait()
            assert self.full, f"the agent has ended by itself: {code}"
            return False
        return True

    def ask(self, line: str | bytes) -> Any:
        """Raises Refused, and ConnectionError where no agent serves."""
        try:
            return self.agent.ask(line)
        except AssertionError as error:
            raise Refused(str(error)) from error
        except (FileNotFoundError, BrokenPipeError) as error:
            raise ConnectionError(str(error)) from error

    def submit(self, job: Job) -> None:
        """Once for its key, however often it is tried. An agent that is started on a full disk cannot register: it refuses."""
        verb = "submit-now-as" if self.full else "submit-as"
        job.job_id = int(self.ask(f"{verb} {job.key} ".encode() + encode(job.spec)))

    def submit_unheard(self, job: Job) -> None:
        """Nobody waits for the answer: the agent is killed at some moment of it."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as end:
            end.connect(str(self.agent.path / DOOR))
            end.sendall(f"submit-as {job.key} ".encode() + encode(job.spec) + b"\n")
        self.agent.kill()

    # Who runs its steps.

    def descriptors(self) -> Iterator[Descriptor]:
        """Of all steps that there are, and say who runs them."""
        with suppress(SpurprocError), StateFolder.open(self.agent.steps.path) as state:
            for step in sorted(state.names()[0]):
                with suppress(SpurprocError), state.open_step(step) as folder:
                    descriptor = folder.descriptor()
                    if descriptor is not None:
                        yield descriptor

    def kill(self, *victims: ProcessIdentity) -> list[int]:
        """SIGKILL, and back once they are gone. The pids of those that were there: who has done its work ends at any moment."""
        found = []
        for victim in (victim for victim in victims if victim.liveness() is Liveness.ALIVE):
            with suppress(AlreadyGone):
                self.agent.steps.kill(victim)
                found.append(victim.pid)
        return found

    def stranger(self, pid: int | None = None) -> None:
        """Somebody who has nothing to do with anything; under the number of one who is dead, where that is free by now."""
        if len(self.strangers) >= _STRANGERS_LAST:
            self.strangers.pop(0).close()
        if pid is not None:
            give_next(pid)
        self.strangers.append(Bystander())

    # Its disk.

    def fill(self) -> None:
        """Not a byte is left."""
        self.full = True
        fd = os.open(self.disk / "fill", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        try:
            for size in (1 << 20, 4096, 1):
                self._fill(fd, bytes(size))
        finally:
            os.close(fd)

    @staticmethod
    def _fill(fd: int, block: bytes) -> None:
        try:
            while True:
                os.write(fd, block)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        """There is room again."""
        (self.disk / "fill").unlink(missing_ok=True)
        self.full = False

    # What is to be seen.

    def lines(self, name: str) -> list[str]:
        """What jobs and hooks have said."""
        path = self.facts / name
        return path.read_text().splitlines() if path.exists() else []


def processes() -> dict[int, str]:
    """All of this pid namespace but kernel threads and zombies, by what they were started as."""
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if command:
                found[pid] = command
    return found


@contextmanager
def gates_closed(jobs: list[Job]) -> Iterator[None]:
    """Those of all that are in the list at the end."""
    try:
        yield
    finally:
        for job in jobs:
            job.gate.__exit__(None, None, None)
