"""A supervisor that takes over can die as well: its host forks another, and not as fast as it can."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.steps import WAIT_S, Steps

_DYING = 6
_PROGRAM = f"""#!{sys.executable}
import os, sys, time
from spurproc.stepd import forking
supervise = forking._supervise
def mortal(request, channel):
    if request.connection_fd < 0:
        with open(os.environ["TIMES"], "a") as file:
            file.write(f"{{time.monotonic()}}\\n")
        with open(os.environ["TIMES"]) as file:
            if len(file.readlines()) <= {_DYING}:
                os._exit(1)
    supervise(request, channel)
forking._supervise = mortal
from spurproc.stepd.__main__ import run
sys.exit(run())
"""


def test_successors_that_die_are_followed_more_and_more_slowly(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause doubles, and the step is over in the end."""
    program, times = tmp_path / "spurstepd", tmp_path / "times"
    program.write_text(_PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("SPURPROC_STEPD", str(program))
    monkeypatch.setenv("TIMES", str(times))
    step = steps.launch(["cat", "/dev/zero"])
    descriptor = steps.descriptor(step)
    assert descriptor.leader is not None
    steps.kill(descriptor.supervisor, descriptor.leader)
    assert step.wait(WAIT_S, completed=True).signal == 9
    forked = [float(line) for line in times.read_text().split()]
    assert len(forked) == _DYING + 1
    pauses = [after - before for before, after in pairwise(forked)]
    assert all(pause >= 0.02 * 2**place for place, pause in enumerate(pauses)), pauses
