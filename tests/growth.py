"""What a row of steps leaves behind in those that live on: in their host, in who launches them, and on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spurproc import Pidfd, gc, launch
from spurproc.client.host_link import HostLink
from spurproc.proto.messages import TakeOver
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StateFolder
from tests import cgroup_folder
from tests.pace import readable
from tests.steps import WAIT_S, Gate, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """By host and launcher, in this order, and beside them."""

    descriptors: tuple[int, int]
    private_kib: tuple[int, int]
    resident_kib: tuple[int, int]
    cgroups: int
    files: int

    @classmethod
    def now(cls, steps: Steps, host: Pidfd) -> Held:
        """Once the host has done all that it had to do before, and with one peer that it has answered."""
        with StateFolder.open(steps.path) as state:
            link = HostLink.open(state)
            try:
                link.send(TakeOver(runtime_id=RuntimeId(2**62, 1, 0)))
                assert readable(link.fileno(), WAIT_S)
                return cls._read(steps, (host.pid, os.getpid()))
            finally:
                link.close()

    @classmethod
    def _read(cls, steps: Steps, pids: tuple[int, int]) -> Held:
        of_host, ours = (memory_kib(pid) for pid in pids)
        return cls(
            descriptors=(open_files(pids[0]), open_files(pids[1])),
            private_kib=(of_host[0], ours[0]),
            resident_kib=(of_host[1], ours[1]),
            cgroups=len(cgroup_folder.below(cgroup_folder.session_folder())) if cgroup_folder.base() is not None else 0,
            files=sum(1 for _ in steps.path.rglob("*")),
        )

    def assert_no_more_than(self, before: Held, growth_kib: int) -> None:
        """Of everything; of memory `growth_kib` more, for an allocator is not exact."""
        now = (self.descriptors, self.cgroups, self.files)
        assert now == (before.descriptors, before.cgroups, before.files)
        for sizes, sizes_before in ((self.private_kib, before.private_kib), (self.resident_kib, before.resident_kib)):
            grown = [size - size_before for size, size_before in zip(sizes, sizes_before, strict=True)]
            assert max(grown) <= growth_kib, (before, self)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory_kib(pid: int) -> tuple[int, int]:
    """What is its alone, and what is resident. proc_pid_smaps(5)"""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return sizes["Private_Clean"] + sizes["Private_Dirty"], sizes["Rss"]


@contextmanager
def lasting_host(steps: Steps, gate: Gate) -> Iterator[Pidfd]:
    """It is kept by a step that runs meanwhile: else it might end while nothing does, as when much is removed."""
    step = steps.launch(gate.script())
    with steps.descriptor(step).host.open() as host:
        yield host
    gate.open()
    assert step.wait(WAIT_S, completed=True).succeeded


def row(steps: Steps, count: int) -> None:
    """So many, one after the other; each is acknowledged, left by its supervisor, and at last removed. No `Step` is kept."""
    for _ in range(count):
        step = launch(steps.spec(["true"]), steps.path)
        with steps.descriptor(step).supervisor.open() as supervisor:
            assert step.wait(WAIT_S, completed=True).succeeded
            step.acknowledge()
            supervisor.wait(WAIT_S, reap_grace_s=0)
    assert len(gc(steps.path).removed) == count
