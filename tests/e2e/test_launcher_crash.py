"""Each step of the launcher before its recorder goes on is a crash point: killed there, nothing runs and nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.command.run import run
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
from spurproc.errors import RecordInvalid
from tests.recording import read_from_new_process

# argv: where a function stands, its name, the folder, containment, the job's argv. Stops when that function returns.
_LAUNCHER = """
import functools, importlib, os, signal, sys
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.tree.members import Containment
module, name, folder, containment, *argv = sys.argv[1:]
owner, _, called = name.rpartition(".")
place = functools.reduce(getattr, owner.split(".") if owner else [], importlib.import_module(module))
original = getattr(place, called)
def stop_after(*arguments, **more):
    result = original(*arguments, **more)
    signal.raise_signal(signal.SIGSTOP)
    return result
setattr(place, called, stop_after)
launch_recorded(SpawnPlan(argv=argv), folder, containment=Containment(containment))
"""
_DURABLE, _LAUNCH = "spurproc.core.durable.private_folder", "spurproc.core.recorded.launch"

# In the launcher's own order.
BEFORE_RECORD = [
    (_DURABLE, "PrivateFolder.create"),
    (_LAUNCH, "claim"),
    (_LAUNCH, "make_step"),
    (_LAUNCH, "FolderLock.share"),
    (_DURABLE, "PrivateFolder.create_file"),
]
AFTER_RECORD = [
    (_DURABLE, "PrivateFolder.replace_file"),
    (_DURABLE, "PrivateFolder.sync_above"),
    (_LAUNCH, "keep_step"),
    (_LAUNCH, "begin"),
]


_OF_A_CGROUP = {"make_step", "keep_step"}


def at_each(steps: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Each step under each containment that has it."""
    of_all = [step for step in steps if step[1] not in _OF_A_CGROUP]
    cases = [("cgroup", step) for step in steps] + [("descendants", step) for step in of_all]
    marked = [
        pytest.param(step, name, id=f"{step[1]}-{name}", marks=pytest.mark.needs_cgroup_v2 if name == "cgroup" else ())
        for name, step in cases
    ]
    return pytest.mark.parametrize(("step", "containment"), marked)


def kill_after(step: tuple[str, str], folder: Path, containment: str) -> None:
    """A launcher is killed right after `step`; seen as a fact, by its stop. Of a job that would leave a file."""
    job = ["sh", "-c", f"echo ran > {folder.parent}/ran"]
    launcher = subprocess.Popen([sys.executable, "-c", _LAUNCHER, *step, str(folder), containment, *job])
    os.waitid(os.P_PID, launcher.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    launcher.kill()
    assert launcher.wait() == -signal.SIGKILL


def nothing_stays(tmp_path: Path) -> None:
    """Another launch anywhere clears the cgroup that no record names; the job never ran."""
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "other") as other:
        other.wait(10)
        other.terminate()
        other.remove()
    root = find_cgroup_root()
    assert root is None or [name for name in os.listdir(root.steps) if os.path.isdir(f"{root.steps}/{name}")] == []
    assert not (tmp_path / "ran").exists()


@at_each(BEFORE_RECORD)
def test_killed_before_the_record(tmp_path: Path, step: tuple[str, str], containment: str) -> None:
    """No run is there. The folder is as good as new."""
    kill_after(step, tmp_path / "run", containment)
    nothing_stays(tmp_path)
    with pytest.raises(RecordInvalid, match="cut short"):
        RecordedRun.open(tmp_path / "run")
    with launch_recorded(SpawnPlan(argv=["true"]), tmp_path / "run", containment=Containment(containment)) as again:
        assert again.wait(10).succeeded
        again.terminate()
        again.remove()
    assert os.listdir(tmp_path) == []


@at_each(AFTER_RECORD)
def test_killed_after_the_record(tmp_path: Path, step: tuple[str, str], containment: str) -> None:
    """The run is there, and was never started: a recorder that was not let go on ends with its launcher."""
    kill_after(step, tmp_path / "run", containment)
    answer = read_from_new_process(tmp_path / "run", remove=True)
    assert (answer["kind"], answer["stage"]) == ("not-started", "NONE")
    assert answer["liveness"] == "gone"
    assert not (tmp_path / "run").exists()
    nothing_stays(tmp_path)


@pytest.mark.needs_cgroup_v2
def test_the_caller_of_run_is_killed(tmp_path: Path) -> None:
    """Its job lives on in a cgroup that no record names; once that is empty, the next run removes it."""
    os.mkfifo(tmp_path / "go")
    script = f"import spurproc; spurproc.run(['sh', '-c', 'echo up; read go < {tmp_path}/go'])"
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"up\n"
    caller.kill()
    caller.wait()
    root = find_cgroup_root()
    assert root is not None
    (left,) = (name for name in os.listdir(root.steps) if os.path.isdir(f"{root.steps}/{name}"))
    assert run(["true"]).succeeded
    assert os.path.isdir(f"{root.steps}/{left}")
    (tmp_path / "go").write_text("go\n")
    assert caller.stdout.read() == b""  # it has ended
    caller.stdout.close()
    while "populated 1" in Path(root.steps, left, "cgroup.events").read_text():
        os.sched_yield()
    assert run(["true"]).succeeded
    assert not os.path.isdir(f"{root.steps}/{left}")
