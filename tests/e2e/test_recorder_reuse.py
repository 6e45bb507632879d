"""A recorder that waits on for the last descendant: the leader's number may be a descendant's by then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from tests.relatives import give_next, wait_number_free

DAEMON = 'read _ < "$1/go"; (read _ < "$1/end"; exit 9) & exit 0'


@pytest.mark.own_pid_namespace
def test_a_descendant_with_the_leaders_number_does_not_replace_its_end(tmp_path: Path) -> None:
    """It ends as an orphan, so that the recorder reaps it, and with another code."""
    for name in ("go", "end"):
        os.mkfifo(tmp_path / name)
    plan = SpawnPlan(argv=["sh", "-c", 'setsid sh -c "$0" sh "$1" & exit 7', DAEMON, tmp_path])
    with launch_recorded(plan, tmp_path / "run", containment=Containment.DESCENDANTS) as run:
        assert run.wait(timeout_s=20).code == 7
        leader = run.leader
        assert leader is not None
        wait_number_free(leader.pid)
        with (tmp_path / "go").open("w") as go:
            give_next(leader.pid)
            go.write("\n")
        recorder = run.recorder
        assert recorder is not None
        with recorder.open() as pidfd:
            with (tmp_path / "end").open("w") as end:
                assert Path(f"/proc/{leader.pid}/stat").read_text().split()[1] == "(sh)"
                end.write("\n")
            pidfd.wait(20)
        assert (tmp_path / "run" / "exit").read_text().endswith("exited 7\n")
        assert "unrecorded" not in (tmp_path / "run" / "started").read_text()
        run.remove()
