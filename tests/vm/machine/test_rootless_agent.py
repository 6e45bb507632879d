"""spurd of an ordinary user, to whom nothing was delegated: the demo."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.meta.repository import ROOT
from tests.pace import at_this_pace
from tests.vm import units


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
