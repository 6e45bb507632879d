"""Steps under limits, with real controllers, as root and as a user to whom a cgroup was delegated."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spurproc import ExitKind, ExitSource
from spurproc.core.cgroup.limits import CgroupLimits
from spurproc.core.cgroup.root import ROOT_VARIABLE
from tests.steps import KILL_AT_ONCE, WAIT_S, Steps, hand_down
from tests.vm import units
from tests.vm.units import output_of_unit, output_of_user_unit, running_unit, running_user_unit

_MIB = 1 << 20


@pytest.fixture
def steps(tmp_path: Path, cgroup_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Where an administrator hands memory and pids down; they and their host are gone when the test is over."""
    monkeypatch.setenv(ROOT_VARIABLE, str(hand_down(cgroup_root, "memory", "pids")))
    with Steps(tmp_path / "state") as made:
        yield made


def test_a_step_that_needs_too_much_memory_is_killed_and_says_for_want_of_what(
    steps: Steps, payload_program: Callable[[str], Path]
) -> None:
    """memory.events tells the OOM kill from any other SIGKILL; memory.peak and cpu.stat tell what all of it has used."""
    limits = CgroupLimits(memory_max_bytes=16 * _MIB)
    step = steps.launch([str(payload_program("eat")), "64"], cgroup_limits=limits, limits_required=True)
    end = step.wait(WAIT_S, completed=True)
    assert (end.kind, end.signal, end.source, end.oom_kills) == (ExitKind.SIGNALED, 9, ExitSource.WAITED, 1)
    emptied = steps.history(step).emptied
    assert emptied is not None
    usage = emptied.usage
    assert usage is not None
    assert usage.oom_kills == 1
    assert 8 * _MIB <= (usage.memory_peak_bytes or 0) <= 16 * _MIB
    assert (usage.cpu_usec or 0) > 0


def test_one_that_is_killed_otherwise_says_that_it_was_not_for_memory(steps: Steps) -> None:
    step = steps.launch(["sleep", "600"], cgroup_limits=CgroupLimits(memory_max_bytes=16 * _MIB), limits_required=True)
    step.terminate(KILL_AT_ONCE)
    end = step.wait(WAIT_S, completed=True)
    assert (end.signal, end.oom_kills) == (9, 0)


# Forks until it is refused, then stays.
_STORM = """
import os, signal
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except OSError:
        signal.pause()
"""


def test_a_storm_of_forks_stays_below_pids_max(steps: Steps) -> None:
    """As root, which RLIMIT_NPROC does not hold: forks fail beyond it, the supervisor is untouched, and all of it is ended."""
    limits = CgroupLimits(pids_max=20)
    step = steps.launch([sys.executable, "-c", _STORM], cgroup_limits=limits, limits_required=True)
    record = steps.descriptor(step).cgroup
    assert record is not None
    cgroup = Path(record.path)
    await_refusal(cgroup / "pids.events")
    assert int((cgroup / "pids.current").read_text()) == 20
    assert step.status().supervised
    step.terminate(KILL_AT_ONCE)
    assert step.wait(WAIT_S, completed=True).signal == 9
    assert not cgroup.exists()


def await_refusal(events: Path) -> None:
    """Until a fork was refused: `max` of pids.events. A change is told by POLLPRI; admin-guide/cgroup-v2.rst, PID."""
    with events.open("rb", buffering=0) as file:
        poll = select.poll()
        poll.register(file, select.POLLPRI)
        while file.read().split()[1] == b"0":
            assert poll.poll(WAIT_S * 1000)
            file.seek(0)


# argv: the state folder and a program that takes memory. One step that can be signalled, one that needs more than it may have.
_LAUNCHER = """
import signal
import spurproc
state, eat = sys.argv[1:]
script = "trap 'exit 12' USR1; echo up; while :; do sleep 600 & wait $!; done"
spec = spurproc.StepSpec(
    runtime_id=spurproc.RuntimeId(1, 1, 0), plan=spurproc.SpawnPlan(argv=["sh", "-c", script], stdout=state + ".out")
)
step = spurproc.launch(spec, state)
assert next(step.logs(follow=True)).decode().split() == ["up"]
limits = spurproc.CgroupLimits(memory_max_bytes=16 << 20)
spec = spurproc.StepSpec(
    runtime_id=spurproc.RuntimeId(2, 1, 0), plan=spurproc.SpawnPlan(argv=[eat, "64"]), cgroup_limits=limits, limits_required=False
)
spurproc.launch(spec, state)
ready()
signal.pause()
"""
# Another program of the same user. argv: the state folder.
_LATER = """
import json, signal
import spurproc
step, eater = spurproc.adopt(sys.argv[1]).steps
with open(f"{sys.argv[1]}/runtime/1.1.0/descriptor.json") as file:
    cgroup = json.load(file)["cgroup"]["path"]
def frozen():
    with open(cgroup + "/cgroup.events") as file:
        return "frozen 1" in file.read()
suspended = [step.suspend().state.value, frozen(), step.status().state.value]
resumed = [step.resume().state.value, frozen()]
step.signal(signal.SIGUSR1)
ends = [each.wait(60, completed=True) for each in (step, eater)]
print(json.dumps({
    "uid": os.getuid(), "suspended": suspended, "resumed": resumed, "cgroup": cgroup, "gone": not os.path.exists(cgroup),
    "end": [ends[0].code, ends[0].source.value], "oom": [ends[1].signal, ends[1].oom_kills],
}))
"""


def check_later(said: dict[str, Any], within: str) -> None:
    """What holds for a user's steps wherever they stand."""
    assert said["uid"] != 0
    assert said["suspended"] == ["suspended", True, "suspended"]
    assert said["resumed"] == ["running", False]
    assert said["end"] == [12, "waited"]
    assert said["gone"]
    assert within in said["cgroup"]


def test_a_user_with_a_delegated_unit_of_the_system(home: Path, payload_program: Callable[[str], Path]) -> None:
    """The launcher lives in the unit's cgroup, so memory cannot be handed down in it: nobody counts it, and none is claimed."""
    folder, properties = home / "steps-system", (f"User={units.USER}", "Delegate=yes")
    program = payload_program("eat")
    with running_unit("delegated", _LAUNCHER, folder, program, properties=properties, own_root=False) as unit:
        said = json.loads(output_of_unit(_LATER, folder, user=units.USER))
    check_later(said, within=f"/system.slice/{unit}/spurproc/steps/1.1.0-")
    assert said["oom"] == [None, None]


def test_a_user_with_a_manager_of_its_own(home: Path, payload_program: Callable[[str], Path]) -> None:
    """In the manager's cgroup memory is counted: a step that needs too much is killed for it, and says so, without root."""
    folder = home / "steps-manager"
    with running_user_unit("delegated", _LAUNCHER, folder, payload_program("eat"), properties=("Delegate=yes",)):
        said = json.loads(output_of_user_unit(_LATER, folder))
    check_later(said, within=".service/spurproc/steps/1.1.0-")
    assert said["oom"] == [9, 1]
