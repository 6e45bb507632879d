"""The order in which a recorder writes an end down, by its system calls: what a power cut or a kill in between would show."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from tests.relatives import in_fork
from tests.syscall_watch import Call, watched

_END = ["look", "pwrite64", "pwrite64", "ftruncate", "fdatasync", "renameat", "fsync", "reap", "look"]
"""The wait that leaves the zombie; the usage; the sentinel, whole and on disk before it gets its name; only then the reap."""


@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("containment", [Containment.CGROUP, Containment.DESCENDANTS])
def test_an_end_is_on_disk_before_the_leader_is_reaped(tmp_path: Path, containment: Containment) -> None:
    def acts_of_recorder() -> list[str]:
        calls = watched("pwrite64", "ftruncate", "fdatasync", "renameat", "fsync", "waitid")
        with launch_recorded(SpawnPlan(argv=["sh", "-c", "exit 7"]), tmp_path / "run", containment=containment) as run:
            assert run.recorder is not None
            recorder = run.recorder.pid
            assert run.wait(10).code == 7
            run.terminate()
            run.remove()
        return [_act(call) for call in calls if call.pid == recorder]

    acts = in_fork(acts_of_recorder)
    began = acts.index("look")
    assert acts[began:][: len(_END)] == _END
    assert "fdatasync" not in acts[:began], "a launch waits for no disk but in its own three fsyncs"


def test_the_lock_is_shared_before_the_launcher_lets_go_of_it(tmp_path: Path) -> None:
    """In between nobody would hold it, and whoever took it would conclude that nobody writes any more."""

    def locks_of_recorder() -> list[int]:
        calls = watched("flock")
        with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run", containment=Containment.DESCENDANTS) as run:
            assert run.recorder is not None
            recorder = run.recorder.pid
            run.wait(10)
            run.terminate()
            run.remove()
        return [call.arguments[1] for call in calls if call.pid == recorder]

    assert in_fork(locks_of_recorder) == [fcntl.LOCK_SH | fcntl.LOCK_NB, fcntl.LOCK_UN]


def _act(call: Call) -> str:
    if call.name != "waitid":
        return call.name
    return "look" if call.arguments[3] & os.WNOWAIT else "reap"
