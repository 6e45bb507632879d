"""The shipped unit of the agent under systemd: it may be stopped, restarted and killed; memory is limited; a bad unit is told."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spurproc import Liveness, Pidfd
from spurproc.proto.runtime_id import BATCH_STEP
from tests.e2e.test_shipped_units import NAMES, UNITS
from tests.pace import at_this_pace, readable
from tests.spurd_command import PROGRAM, Spurd
from tests.steps import Gate, Steps
from tests.vm import units

_INSTALLED = Path("/run/systemd/system")
_STATE = Path("/var/lib/spurd")
_STEPS = "/sys/fs/cgroup/system.slice/spurstepd.service/steps"
_LIMIT_BYTES = 64 << 20
_EATS = "import sys; print('eats', flush=True); kept = bytearray(256 << 20); print('has eaten')"
_BECOMES_SPURD = "os.execv(sys.argv[1], sys.argv[1:])"


def systemctl(*arguments: str) -> int:
    """Its exit code."""
    return subprocess.run(["systemctl", *arguments], check=False, timeout=at_this_pace(100)).returncode


def main_pid() -> int:
    """Of the agent's unit."""
    command = ["systemctl", "show", "--property=MainPID", "--value", "spurd.service"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture
def spurd() -> Iterator[Spurd]:
    """Both units, with the programs of this run and all else as it is shipped; the agent serves. Nothing is left at the end."""
    for name in NAMES:
        text = (UNITS / name).read_text(encoding="utf-8").replace("/usr/bin/spur", f"{Path(sys.executable).parent}/spur")
        (_INSTALLED / name).write_text(text, encoding="utf-8")
    stop = _INSTALLED / "spurstepd.service.d" / "stop.conf"
    stop.parent.mkdir()
    stop.write_text("[Unit]\nRefuseManualStop=no\n")  # as a shutdown of the machine may
    try:
        assert systemctl("daemon-reload") == 0
        assert systemctl("start", "spurd.service") == 0
        yield Spurd(_STATE)
    finally:
        systemctl("stop", *NAMES)
        shutil.rmtree(stop.parent)
        for name in NAMES:
            (_INSTALLED / name).unlink()
        systemctl("daemon-reload")
        shutil.rmtree(_STATE)


def test_whatever_is_done_to_the_agents_unit_its_jobs_live_on(spurd: Spurd, tmp_path: Path) -> None:
    """Restarted, killed, stopped: the same process runs on, under its limit; and ends while nobody is there."""
    gate = Gate(tmp_path / "gate")
    assert spurd.json("status")["problems"] == []
    job = ("--memory", _LIMIT_BYTES, "--output", tmp_path / "out", "--", *gate.script("echo once; exit 7"))
    assert spurd.json("submit", *job)["warnings"] == []
    until_running(spurd, 1)
    descriptor = Steps(_STATE / "steps").descriptor_of(1, 1, BATCH_STEP)
    assert descriptor.leader is not None
    assert descriptor.cgroup is not None
    assert Path(descriptor.cgroup.path).is_relative_to(_STEPS)
    assert (Path(descriptor.cgroup.path) / "memory.max").read_text() == f"{_LIMIT_BYTES}\n"
    with descriptor.leader.open() as leader:
        for act in (["restart"], ["kill", "--signal=KILL", "--kill-whom=main"]):
            with Pidfd.open(main_pid()) as agent:
                assert systemctl(*act, "spurd.service") == 0
                assert readable(agent.fileno(), 10)
            assert systemctl("start", "spurd.service") == 0  # returns once it serves
            assert leader.liveness() is Liveness.ALIVE
            assert spurd.json("show", "1")["job"]["phase"] == "running"
        assert systemctl("stop", "spurd.service") == 0
        assert spurd("status").code == 3
        assert leader.liveness() is Liveness.ALIVE
        gate.open()
    assert systemctl("start", "spurd.service") == 0
    assert spurd("wait", 1).code == 7
    assert (tmp_path / "out").read_text() == "once\n"
    assert len(spurd.json("show", "1")["attempts"]) == 1


def test_a_job_above_its_memory_is_killed_and_that_is_told(spurd: Spurd, tmp_path: Path) -> None:
    """The others, and the agent, go on: the unit of the step host has OOMPolicy=continue."""
    gate = Gate(tmp_path / "gate")
    agent = main_pid()
    assert spurd("submit", "--", *gate.script("exit 4")).code == 0
    eater = (sys.executable, "-c", _EATS)
    assert spurd("submit", "--wait", "--memory", _LIMIT_BYTES, "--output", tmp_path / "eater", "--", *eater).code == 137
    end = spurd.json("show", "2")["attempts"][0]["exit"]
    assert (end["kind"], end["signal"], end["source"]) == ("signaled", signal.SIGKILL, "waited")
    assert end["oom_kills"] == 1
    assert (tmp_path / "eater").read_text() == "eats\n"
    gate.open()
    assert spurd("wait", 1).code == 4
    assert main_pid() == agent


@pytest.mark.parametrize(("properties", "kills"), [((), True), (("KillMode=process",), False)], ids=["as it is", "process"])
def test_a_unit_that_would_kill_supervisors_is_told_of(home: Path, properties: tuple[str, ...], *, kills: bool) -> None:
    """That of a user's agent, which can make its cgroups inside of its unit only."""
    state = home / "state"
    more = (f"User={units.USER}", "Delegate=yes", *properties)
    with units.running_unit("agent", _BECOMES_SPURD, PROGRAM, "serve", "--state-dir", state, properties=more, own_root=False):
        problems = status_as_user(state)["problems"]
    if kills:
        (problem,) = problems
        assert "spurproc-test-agent.service, which has KillMode=control-group: a stop or restart of it ends every job" in problem
        assert problem.endswith("set KillMode=process")
    else:
        assert problems == []


def status_as_user(state: Path) -> dict[str, Any]:
    """What the user's own agent says to the user."""
    entry = pwd.getpwnam(units.USER)
    as_user = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups"]
    command = [*as_user, str(PROGRAM), "status", "--json", "--state-dir", str(state)]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, env=os.environ).stdout)
    return answer


def until_running(spurd: Spurd, job: int) -> None:
    """By what `spurd wait` tells of it."""
    waiting = spurd.start("wait", "--json", str(job))
    assert waiting.stdout is not None
    for line in waiting.stdout:
        if json.loads(line)["job"]["phase"] == "running":
            break
    waiting.terminate()
    waiting.communicate()
