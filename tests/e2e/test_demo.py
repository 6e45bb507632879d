"""The main job on real input: five scripts as supervised steps; their launcher and a supervisor are lost, and they are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from spurproc.core.facilities import Facilities
from tests.meta.repository import ROOT

ENDS = {
    "compile.sh": (None, "exited", 0, None),
    "crunch.py": (None, "exited", 0, None),
    "trap_exec.sh": (None, "exited", 7, None),
    "daemonise.sh": (None, "exited", 0, None),
    "stubborn.sh": ("alive", "signaled", None, 9),
}
"""Job: as it was found (None: either, it ends by itself), kind, code, signal."""


def test_demo_tells_five_true_ends(tmp_path: Path) -> None:
    """One terminated, four waited for, each end from a parent that waited, and nothing of any tree lives on."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--json", tmp_path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert [row["job"] for row in found] == list(ENDS)
    for row in found:
        liveness, kind, code, signal = ENDS[row["job"]]
        assert liveness in (None, row["found"])
        assert (row["end"]["kind"], row["end"].get("code")) == (kind, code)
        assert row["end"]["source"] == "waited"
        assert row["tree"] == "gone"
        assert row["end"].get("signal") == signal
    assert_the_lost_are_told_truly(done.stderr)
    assert [row["supervised"] for row in found if row["job"] == "stubborn.sh"] == [False]
    assert not (tmp_path / "state").exists()


def assert_the_lost_are_told_truly(said: str) -> None:
    """The launcher is the demo's child. The supervisor is its host's, who may reap it first: then only the kernel may know."""
    launcher, supervisor = (line.partition(": ")[2] for line in said.splitlines())
    ends = ["killed by SIGKILL"]
    if not Facilities.current().pidfd_exit_info:
        ends.append("unknown: it was reaped by another and this kernel keeps no record of that")
    assert launcher == ends[0]
    assert supervisor in ends


def test_demo_prints_a_table(tmp_path: Path) -> None:
    """A heading and a line for each job, on lines of a terminal's width or a little more."""
    done = subprocess.run([sys.executable, "-m", "examples.demo", tmp_path], cwd=ROOT, capture_output=True, text=True, check=True)
    heading, *rows = done.stdout.splitlines()[2:]
    assert heading.split()[:2] == ["step", "job"]
    assert [row.split()[1] for row in rows] == list(ENDS)
    assert (tmp_path / "compile.sh.log").read_text().endswith("units\n")
    assert (tmp_path / "trap_exec.sh.log").read_text() == "about to become another program\n"
