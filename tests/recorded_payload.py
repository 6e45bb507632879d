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
from tests.payload import PayloadPipes, build


class RecordedPayload:
    """A payload that runs recorded in `folder`."""

    def __init__(self, name: str, folder: Path, containment: Containment, arguments: tuple[str, ...]) -> None:
        self._pipes = PayloadPipes()
        env = {"PATH": os.defpath, **self._pipes.environment}
        plan = SpawnPlan(argv=[build(name), *arguments], env=env, pass_fds=self._pipes.passed)
        try:
            self.run: RecordedRun = launch_recorded(plan, folder, containment=containment)
        finally:
            self._pipes.close_passed()
        self.folder = folder

    @property
    def leader_pid(self) -> int:
        """The number of its leader."""
        assert self.run.leader is not None
        return self.run.leader.pid

    def wait_ready(self, count: int = 1) -> bytes:
        """As PayloadPipes.wait_ready."""
        return self._pipes.wait_ready(count)

    def release(self) -> None:
        """As PayloadPipes.release."""
        self._pipes.release()

    def close(self) -> None:
        """End it, and remove its folder."""
        self.release()
        self.run.terminate(KillPlan.default())
        self.run.remove(10)
        self.run.close()
        self._pipes.close()


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
