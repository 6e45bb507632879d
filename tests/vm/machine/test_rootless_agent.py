"""spurd of an ordinary user: the demo without any delegation, and a unit of the user's own manager."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

from spurproc import Liveness, ProcessIdentity
from tests.meta.repository import ROOT
from tests.pace import at_this_pace
from tests.spurd_command import PROGRAM
from tests.steps import Gate
from tests.vm import units

_BECOMES_SPURD = "os.execv(sys.argv[1], sys.argv[1:])"


def as_user(*command: object, code: int = 0) -> str:
    """What a command of USER's says; it has to end with `code`."""
    entry = pwd.getpwnam(units.USER)
    prefix = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups"]
    env = {"PATH": os.environ["PATH"], "HOME": entry.pw_dir}
    timeout_s = at_this_pace(60)
    done = subprocess.run(
        [*prefix, *map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_demo_needs_no_root(home: Path) -> None:
    """Nothing was delegated, so its supervisors hold the trees together."""
    seen: dict[str, Any] = json.loads(as_user(sys.executable, "-m", "examples.demo", "--json"))
    assert [claim["claim"] for claim in seen["claims"] if not claim["holds"]] == []


def test_a_users_unit_may_be_stopped(home: Path) -> None:
    """The job stands beside it, under the user's manager: the same process before and after, and one end."""
    state = home / "state"
    gate = Gate(home / "gate")
    os.chmod(gate.path, 0o666)
    options = ("--state-dir", state)

    def serving() -> Any:
        return units.running_user_unit("agent", _BECOMES_SPURD, PROGRAM, "serve", *options, properties=("Delegate=yes",))

    with serving():
        assert json.loads(as_user(PROGRAM, "status", "--json", *options))["problems"] == []
        as_user(PROGRAM, "submit", *options, "--output", home / "out", "--", *gate.script("exit 7"))
        until_launched(state)
        descriptor = json.loads((state / "steps/runtime/1.1.batch/descriptor.json").read_text())
        leader = ProcessIdentity.from_text(descriptor["leader"])
    assert leader.liveness() is Liveness.ALIVE
    as_user(PROGRAM, "status", *options, code=3)
    gate.open()
    with serving():
        as_user(PROGRAM, "wait", *options, 1, code=7)


def until_launched(state: Path) -> None:
    """By what `spurd wait` tells of its only job."""
    entry = pwd.getpwnam(units.USER)
    command = [PROGRAM, "wait", "--json", "--state-dir", state, "1"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, user=entry.pw_uid, group=entry.pw_gid) as waiting:
        assert waiting.stdout is not None
        for line in waiting.stdout:
            if json.loads(line)["job"]["phase"] == "running":
                break
        waiting.terminate()
