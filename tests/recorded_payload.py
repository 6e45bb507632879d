"""A payload as a recorded run, let go and ended by the test as any other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import KillPlan
from tests.payload import build


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
