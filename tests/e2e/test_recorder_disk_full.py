"""A disk that fills up: an end whose room was made is recorded all the same, one without room is UNKNOWN, never 0."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from spurproc.core.exit_info import ExitKind
from spurproc.core.process.pidfd import REAP_GRACE_S
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from tests.rungs import environment, without

pytestmark = pytest.mark.needs_root

# argv: mount point, FIFO, what to do. Runs in a mount namespace of its own.
_SCRIPT = """
import json, os, subprocess, sys, time
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.errors import SystemCallError
disk, fifo, what = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0755", "none", disk], check=True)
def fill():
    with open(f"{disk}/filler{len(os.listdir(disk))}", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
if what == "before":
    fill()
plan = SpawnPlan(argv=["sh", "-c", f"read go < {fifo}; exit 7"])
try:
    run = launch_recorded(plan, f"{disk}/run")
except SystemCallError as error:
    print(json.dumps({"errno": error.errno, "left": [name for name in os.listdir(disk) if not name.startswith("filler")]}))
    sys.exit()
if what == "no room":
    os.truncate(f"{disk}/run/exit.tmp", 0)
fill()
open(fifo, "w").write("go\\n")
begin = time.monotonic()
answer = run.wait(10).to_json()
answer["waited_s"] = time.monotonic() - begin
run.terminate()
run.remove()
print(json.dumps(answer))
"""


def on_a_small_disk(tmp_path: Path, what: str) -> dict[str, object]:
    (tmp_path / "disk").mkdir()
    os.mkfifo(tmp_path / "fifo")
    command = ["unshare", "--mount", sys.executable, "-c", _SCRIPT, str(tmp_path / "disk"), str(tmp_path / "fifo"), what]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment("pidfd_exit_info"))
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_an_end_is_recorded_though_the_disk_is_full(tmp_path: Path) -> None:
    """SE-02: its room was made before the job started."""
    answer = on_a_small_disk(tmp_path, "after")
    assert (answer["kind"], answer["code"], answer["source"]) == ("exited", 7, "recorded")


def test_an_end_without_room_is_unknown(tmp_path: Path) -> None:
    """SE-02: never an empty file that reads as 0, and the reason is told; at once, for nobody is awaited to reap the leader."""
    answer = on_a_small_disk(tmp_path, "no room")
    assert float(str(answer["waited_s"])) < REAP_GRACE_S
    assert answer["kind"] == "unknown"
    assert "could not write" in str(answer["reason"])


def test_a_launch_on_a_full_disk_fails_and_leaves_nothing(tmp_path: Path) -> None:
    """ENOSPC before anything is started."""
    assert on_a_small_disk(tmp_path, "before") == {"errno": 28, "left": []}


def test_a_record_that_is_cut_short_gets_no_name(tmp_path: Path) -> None:
    """A limit that somebody puts on the recorder's files cuts its one write: what it wrote then is not how the job ended."""
    os.mkfifo(tmp_path / "go")
    plan = SpawnPlan(argv=["sh", "-c", f"read go < {tmp_path}/go; exit 7"])
    with (
        without("pidfd_exit_info"),
        launch_recorded(plan, tmp_path / "run", containment=Containment.DESCENDANTS) as run,
    ):
        assert run.recorder is not None
        resource.prlimit(run.recorder.pid, resource.RLIMIT_FSIZE, (20, 20))
        (tmp_path / "go").write_text("go\n")
        assert run.wait(10).kind is ExitKind.UNKNOWN
        assert not (tmp_path / "run" / "exit").exists()
