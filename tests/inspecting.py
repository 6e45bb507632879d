"""Running `spurproc-inspect`, and recorded runs of payloads for it to look at."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from tests.pace import readable
from tests.payload import build

PROGRAM = (sys.executable, "-m", "spurproc.inspect")
TIMEOUT_S = 300.0
"""Nothing waits so long but on an emulated machine, where a start of the program alone takes most of a minute."""


def inspect(*arguments: str | int | Path, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[bytes]:
    """What it prints and how it ends, piped."""
    return subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, check=False, timeout=timeout_s)


def inspect_json(*arguments: str | int | Path, code: int = 0) -> dict[str, Any]:
    """Its document; it must end with `code` and complain of nothing, unless that says that something is wrong."""
    done = inspect(*arguments, "--json")
    assert done.returncode == code, done
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["exit_code"] == code
    return document


class RecordedPayload:
    """A payload that runs recorded in `folder`: it says ready, and is let go, by pipes as any other."""

    def __init__(self, name: str, folder: Path, containment: Containment, arguments: tuple[str, ...]) -> None:
        self._ready, ready = os.pipe()
        hold, self._hold = os.pipe()
        env = {"PAYLOAD_READY_FD": str(ready), "PAYLOAD_HOLD_FD": str(hold), "PATH": os.defpath}
        plan = SpawnPlan(argv=[build(name), *arguments], env=env, pass_fds=(ready, hold))
        try:
            self.run: RecordedRun = launch_recorded(plan, folder, containment=containment)
        finally:
            os.close(ready)
            os.close(hold)
        self.folder = folder

    @property
    def leader_pid(self) -> int:
        """The number of its leader."""
        assert self.run.leader is not None
        return self.run.leader.pid

    def wait_ready(self, count: int = 1) -> bytes:
        """Wait for `count` bytes from it."""
        received = b""
        while len(received) < count:
            part = os.read(self._ready, count - len(received))
            assert part, f"it ended before it was ready: {received!r}"
            received += part
        return received

    def release(self) -> None:
        """Let all of it go on. May be called twice."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def close(self) -> None:
        """End it, and remove its folder."""
        self.release()
        self.run.terminate(KillPlan.default())
        self.run.remove(10)
        self.run.close()
        os.close(self._ready)


@contextmanager
def recorded_payload(
    name: str, folder: Path, *arguments: str, containment: Containment = Containment.CGROUP
) -> Iterator[RecordedPayload]:
    """Started, and ended when the block is left."""
    payload = RecordedPayload(name, folder, containment, arguments)
    try:
        yield payload
    finally:
        payload.close()


class Watch:
    """`spurproc-inspect watch --json`, while it runs. A child of the test: use it as a context manager."""

    def __init__(self, *arguments: str | int | Path, program: tuple[str, ...] = PROGRAM) -> None:
        command = [*program, "watch", "--json", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self._unread = b""
        self.told: list[dict[str, Any]] = []

    def until(self, event: str, pid: int | None = None) -> dict[str, Any]:
        """The next line that tells of `event`, of `pid` if given; blocks until it has come. All lines are kept in `told`."""
        while self._tell_one():
            if self.told[-1]["event"] == event and pid in (None, self.told[-1]["pid"]):
                return self.told[-1]
        raise AssertionError(f"no {event!r} came: {self.told} {self.complaint()!r}")

    def rest(self) -> int:
        """Read to the end; its return code."""
        while self._tell_one():
            pass
        return self.process.wait(TIMEOUT_S)

    def _tell_one(self) -> bool:
        """Read a line; whether there was one."""
        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        while b"\n" not in self._unread:
            assert poll.poll(TIMEOUT_S * 1000), f"nothing is told any more: {self.told}"
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                return False
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        self.told.append(json.loads(line))
        return True

    def of(self, pid: int) -> list[str]:
        """The events that were told of `pid`."""
        return [told["event"] for told in self.told if told["pid"] == pid]

    def complaint(self) -> str:
        """Its standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def listener_pid(self) -> int:
        """The child of it that listens."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def signal(self, number: int) -> None:
        """Send it a signal; it is our child, not reaped yet."""
        self.process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def wait_ended(pidfd: int) -> None:
    """Wait for the end of the process, and close its pidfd."""
    try:
        assert readable(pidfd, 10)
    finally:
        os.close(pidfd)
