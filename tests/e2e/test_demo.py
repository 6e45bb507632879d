"""The main job on real input: five scripts as jobs of a spurd that is killed in the middle; the demo judges itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.root import ROOT_VARIABLE
from tests import cgroup_folder
from tests.meta.repository import ROOT

_DEMO = [sys.executable, "-m", "examples.demo"]
_READ_ONLY = 'mount -o remount,bind,ro "$0" && exec "$@"'
ENDS = {
    "stubborn.sh": ("killed by SIGKILL", 137),
    "compile.sh": ("exited 0", 0),
    "crunch.py": ("exited 0", 0),
    "trap_exec.sh": ("exited 7", 7),
    "daemonise.sh": ("exited 0", 0),
}


def run_demo(*command: str, env: dict[str, str] | None = None) -> Any:
    """What it has seen; every claim holds."""
    done = subprocess.run([*command, *_DEMO, "--json"], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert [claim["claim"] for claim in seen["claims"] if not claim["holds"]] == []
    assert len(seen["claims"]) >= 15
    assert {row["script"]: (row["end"], row["code"]) for row in seen["rows"]} == ENDS
    assert seen["alive_unwatched"] >= 2  # the stubborn one and its child
    return seen


def test_every_job_ran_once_though_spurd_was_killed() -> None:
    seen = run_demo()
    assert {row["source"] for row in seen["rows"]} == {"waited"}
    assert seen["ended_unwatched"] in ([], [["compile.sh", "exited 0"]])


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_so_it_is_where_no_cgroup_may_be_made() -> None:
    """As for a user to whom none was delegated."""
    env = {name: value for name, value in os.environ.items() if name != ROOT_VARIABLE}
    run_demo("unshare", "--mount", "sh", "-c", _READ_ONLY, str(cgroup_folder.mount()), env=env)


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    """Before anything is started there."""
    (tmp_path / "output").mkdir()
    done = subprocess.run([*_DEMO, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"demo: {tmp_path} is no empty folder\n")
    assert not (tmp_path / "state").exists()
