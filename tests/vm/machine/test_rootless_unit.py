"""Without root, inside units of systemd: with a delegated cgroup and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vm import units

# argv: a folder for the run. One command from beginning to end, and one recorded run, signalled; where each stood, how it ended.
_PROGRAM = """
import json
import spurproc
folder = sys.argv[1]
whole = spurproc.run(["sh", "-c", "sh -c 'exec sleep 1000' & exit 3"], kill_plan=spurproc.KillPlan(steps=((9, None),)))
output, stdout = os.pipe()
job = spurproc.SpawnPlan(argv=["sh", "-c", "cat /proc/self/cgroup; exec sleep 1000"], stdout=stdout)
with spurproc.launch_recorded(job, folder) as run:
    where = os.read(output, 4096).decode().strip()
    alive = run.liveness().value
    report = run.terminate(spurproc.KillPlan.default())
    end = run.wait(60)
    run.remove()
own = open("/proc/self/cgroup").read().strip()
print(json.dumps({
    "uid": os.getuid(), "run": [whole.containment.value, whole.code, whole.leftovers is not None and whole.leftovers.empty],
    "alive": alive, "empty": report.empty, "end": [end.kind.value, end.signal],
    "own": own, "job": where, "oom_kills": end.oom_kills,
}))
"""


@pytest.fixture(scope="module")
def home() -> Path:
    """That of a user with a manager of its own."""
    return units.make_user()


def checked(output: str, containment: str, folder: Path) -> dict[str, str]:
    """What holds everywhere: all of it was ended, and its end is told truly. What else the program said."""
    said: dict[str, object] = json.loads(output)
    assert said["uid"] != 0
    assert said["run"] == [containment, 3, True]
    assert (said["alive"], said["empty"], said["end"]) == ("alive", True, ["signaled", 15])
    assert not folder.exists()
    return {name: str(value) for name, value in said.items()}


def test_delegated_unit_of_the_users_manager(home: Path) -> None:
    """The topmost delegated cgroup is that of the manager: the run stands outside of the launcher's unit, and is counted."""
    folder = home / "user-unit"
    said = checked(units.output_of_user_unit(_PROGRAM, folder, properties=("Delegate=yes",)), "cgroup", folder)
    manager = said["own"].partition(".service/")[0] + ".service"
    assert said["job"].startswith(f"{manager}/spurproc/steps/")
    assert said["oom_kills"] == "0"


def test_delegated_unit_of_the_system(home: Path) -> None:
    """Here it is the unit's own cgroup; memory cannot be handed down in it, for the launcher lives there, and that is told."""
    folder = home / "system-unit"
    output = units.output_of_unit(_PROGRAM, folder, user=units.USER, properties=("Delegate=yes",))
    said = checked(output, "cgroup", folder)
    assert said["job"].startswith(f"{said['own']}/spurproc/steps/")
    assert said["oom_kills"] == "None"


def test_unit_without_delegation(home: Path) -> None:
    """No cgroup may be made: a weaker containment, visible, and the same answers."""
    folder = home / "plain-unit"
    said = checked(units.output_of_unit(_PROGRAM, folder, user=units.USER), "descendants", folder)
    assert said["job"] == said["own"]
