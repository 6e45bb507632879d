"""Steps that are launched inside a unit of systemd that is stopped, with the default KillMode: who lives on, who is ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc import ExitSource, Liveness, Proof, RuntimeId, StepState, adopt
from spurproc.core.cgroup.folder import process_path
from tests.steps import WAIT_S, Gate, Steps
from tests.vm import units
from tests.vm.units import output_of_unit, output_of_user_unit, running_unit, running_user_unit, stop, stop_user_unit

# argv: the state folder and FIFOs. The step of each runs until somebody opens its FIFO for writing, and exits 7.
_LAUNCHER = """
import signal
import spurproc
state, *fifos = sys.argv[1:]
for job, fifo in enumerate(fifos, 1):
    plan = spurproc.SpawnPlan(argv=["sh", "-c", "read line <$0; exit 7", fifo])
    spurproc.launch(spurproc.StepSpec(runtime_id=spurproc.RuntimeId(job, 1, 0), plan=plan), state)
ready()
signal.pause()
"""
# Another program of the same user, later, in another unit. argv: the state folder; FIFOs to open, where steps are to live.
_LATER = """
import json
import spurproc
state, *fifos = sys.argv[1:]
told = []
for step in spurproc.adopt(state).steps:
    status = step.status()
    if fifos:
        os.close(os.open(fifos.pop(0), os.O_WRONLY))
    end = step.wait(60, completed=True)
    told.append([str(step.runtime_id), status.liveness.liveness.value, status.supervised, end.code, end.signal, end.source.value])
    step.acknowledge()
print(json.dumps(told))
"""


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """They and their host are gone when the test is over."""
    with Steps(tmp_path / "state") as made:
        yield made


def test_steps_live_on_when_their_launchers_unit_is_stopped(steps: Steps, tmp_path: Path) -> None:
    """Host, supervisors and leaders stand outside of the unit's cgroup. Who comes next adopts them, and launches beside them."""
    gates = [Gate(tmp_path / name) for name in "abc"]
    with running_unit("launcher", _LAUNCHER, steps.path, *(gate.path for gate in gates)) as unit:
        first = steps.descriptor_of(1, 1, 0)
        assert first.leader is not None
        for process in (first.host, first.supervisor, first.leader):
            assert unit not in (process_path(process.pid) or unit)
        stop(unit)
    found = adopt(steps.path).steps
    assert [str(step.runtime_id) for step in found] == ["1.1.0", "2.1.0", "3.1.0"]
    for step in found:
        status = step.status()
        assert (status.state, status.supervised, status.liveness.liveness) == (StepState.RUNNING, True, Liveness.ALIVE)
    assert steps.launch(["sh", "-c", "exit 4"], runtime_id=RuntimeId(9, 1, 0)).wait(WAIT_S, completed=True).code == 4
    assert steps.descriptor_of(9, 1, 0).host == first.host, "the same host, which outlived the unit"
    found[0].suspend()
    found[0].resume()
    for step, gate in zip(found, gates, strict=True):
        gate.open()
        end = step.wait(WAIT_S, completed=True)
        assert (end.code, end.source) == (7, ExitSource.WAITED)
        emptied = steps.history(step).emptied
        assert emptied is not None
        assert emptied.proof is Proof.CGROUP_EMPTY


@pytest.mark.parametrize("delegated", [True, False])
def test_steps_of_a_user_end_with_the_unit_and_say_so(home: Path, delegated: bool) -> None:
    """With Delegate= all of it stands below the unit's own cgroup, without it in it. Its supervisors take systemd's SIGTERM."""
    folder = home / f"steps-{delegated}"
    properties = (f"User={units.USER}", *(["Delegate=yes"] if delegated else []))
    fifo = _fifo(home / f"fifo-{delegated}")
    with running_unit("users-launcher", _LAUNCHER, folder, fifo, properties=properties, own_root=False) as unit:
        stop(unit)
    told = json.loads(output_of_unit(_LATER, folder, user=units.USER, properties=properties[1:]))
    assert told == [["1.1.0", "gone", False, None, 15, "waited"]]


def test_steps_of_a_users_manager_live_on(home: Path) -> None:
    """Delegate= in a unit of `systemd --user`: they stand in the manager's cgroup, beside the unit."""
    folder, fifo = home / "steps-user", _fifo(home / "fifo-user")
    with running_user_unit("launcher", _LAUNCHER, folder, fifo, properties=("Delegate=yes",)) as unit:
        stop_user_unit(unit)
    told = json.loads(output_of_user_unit(_LATER, folder, fifo, properties=("Delegate=yes",)))
    assert told == [["1.1.0", "alive", True, 7, None, "waited"]]


def _fifo(path: Path) -> Path:
    Gate(path).path.chmod(0o666)
    return path
