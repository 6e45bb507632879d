"""Where no cgroup may be made: what falls back says so, and what was asked for by name is an error that says why."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spurproc import Containment, SpawnPlan, launch_recorded, run, spawn
from spurproc.core.cgroup import root
from spurproc.core.cgroup.root import ROOT_VARIABLE, find_cgroup_root
from spurproc.errors import Unsupported
from tests import cgroup_folder
from tests.relatives import NOBODY, in_fork

_PR_SET_DUMPABLE = 4
_CLONE_NEWUSER = 0x10000000
_READ_ONLY = 'mount -o remount,bind,ro "$0" && exec "$@"'
_TOLD = "import json; from tests.e2e.test_no_cgroup import told; print(json.dumps(told()))"
_NO_CGROUP = "cannot contain the run in a cgroup: there is no cgroup2 folder here that this process may write"
FALLEN_BACK = {
    "root": None,
    "run": [3, "descendants", True, "no descendants"],
    "recorded": [4, "descendants", "descendants"],
    "spawn": "process group",
    "run in a cgroup": _NO_CGROUP,
    "recorded in a cgroup": _NO_CGROUP,
}


def told() -> dict[str, object]:
    """What each way to start something says of its containment in this process."""
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above, "run")
        result = run(["sh", "-c", "setsid sleep 100 & exit 3"])
        with launch_recorded(SpawnPlan(argv=["sh", "-c", "exit 4"]), folder) as recorded:
            code = recorded.wait(10).code
            written, said = recorded.record.containment.value, recorded.containment.value
            recorded.remove(5)
        spawned = spawn(SpawnPlan(argv=["true"]))
        spawned.pidfd.wait(5)
        spawned.pidfd.close()
        assert result.leftovers is not None
        found = find_cgroup_root()
        return {
            "root": found and found.path,
            "run": [result.code, result.containment.value, result.leftovers.empty, result.leftovers.proof.value],
            "recorded": [code, written, said],
            "spawn": spawned.containment.value,
            "run in a cgroup": _refusal(lambda: run(["true"], containment=Containment.CGROUP)),
            "recorded in a cgroup": _refusal(
                lambda: launch_recorded(SpawnPlan(argv=["true"]), folder, containment=Containment.CGROUP)
            ),
        }


def _refusal(start: Callable[[], object]) -> str:
    try:
        start()
    except Unsupported as error:
        return str(error)
    return "none"


def _in_namespace(program: str, ours: str = "") -> Any:
    """What `program` prints, in a mount namespace where the cgroup2 mount is read-only."""
    command = ["unshare", "--mount", "sh", "-c", _READ_ONLY, str(cgroup_folder.mount()), sys.executable, "-c", program]
    environment = {name: value for name, value in os.environ.items() if name != ROOT_VARIABLE}
    environment |= {ROOT_VARIABLE: ours} if ours else {}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_send_signal")
def test_read_only_mount() -> None:
    assert _in_namespace(_TOLD) == FALLEN_BACK


@pytest.mark.needs_root
@pytest.mark.needs_facility("pidfd_send_signal")
def test_user_without_a_delegated_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    assert in_fork(told, uid=NOBODY) == FALLEN_BACK


_ASKED_FOR = """
import json
from spurproc import Containment, SpawnPlan, launch_recorded, run
def refusal(start):
    try:
        start()
    except Exception as error:
        return [type(error).__name__, str(error)]
print(json.dumps([refusal(lambda: run(["true"])), refusal(lambda: launch_recorded(SpawnPlan(argv=["true"]), "/tmp/none"))]))
"""


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.parametrize("there", [False, True], ids=["to be made", "made before"])
def test_root_that_was_asked_for_and_may_not_be_written(cgroup_root: Path, *, there: bool) -> None:
    """Named by the caller, it is not quietly done without."""
    if there:
        for name in ("ours", "ours/supervisors", "ours/steps", "ours/hooks"):
            (cgroup_root / name).mkdir()
    for kind, message in _in_namespace(_ASKED_FOR, ours=str(cgroup_root / "ours")):
        assert kind == ("NotPermitted" if there else "SystemCallError")
        assert f"{cgroup_root}/ours" in message


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
@pytest.mark.needs_facility("pidfd_send_signal")
def test_root_of_another_is_none_of_ours(monkeypatch: pytest.MonkeyPatch, cgroup_root: Path) -> None:
    """Made by the real root and found by the root of a user namespace, which may not write it: it falls back, and says so."""
    for name in ("spurproc", "spurproc/supervisors", "spurproc/steps", "spurproc/hooks"):
        (cgroup_root / name).mkdir()
    monkeypatch.delenv(ROOT_VARIABLE)
    monkeypatch.setattr(root, "root_candidates", lambda: iter([f"{cgroup_root}/spurproc"]))

    def ask() -> list[object]:
        libc = ctypes.CDLL(None)
        assert libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0) == 0  # else its own uid_map is root's
        assert libc.unshare(_CLONE_NEWUSER) == 0
        Path("/proc/self/uid_map").write_text(f"0 {NOBODY} 1")
        assert os.geteuid() == 0
        return [find_cgroup_root(), run(["true"]).containment.value]

    assert in_fork(ask, uid=NOBODY) == [None, "descendants"]
