"""Runs launched by a process that is then killed, and looked at from another: the programs and handles for that."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spurproc.core.recorded.run import RecordedRun
from spurproc.errors import AlreadyGone, Busy, RecordInvalid, WaitTimeout
from tests.relatives import in_fork
from tests.rungs import environment, without

ROOT = Path(__file__).parent.parent
_PR_SET_CHILD_SUBREAPER = 36

# argv: folder, containment, another program or "-", "commit" or "hold", then the job's argv. Says how it went, then waits to be
# killed; "hold": it never lets the recorder go on.
_LAUNCHER = """
import sys
from spurproc.core.recorded.channel import RecorderChannel
from spurproc.core.spawn import program
from spurproc.core.tree.members import Containment
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.errors import SpawnError
folder, containment, other, how, *argv = sys.argv[1:]
if other != "-":
    program.PROGRAM_PATH = other
commit = RecorderChannel.commit
def commit_and_say(channel):
    if how == "commit":
        commit(channel)
    print("begun", flush=True)
    if how == "hold":
        sys.stdin.read()
RecorderChannel.commit = commit_and_say
try:
    run = launch_recorded(SpawnPlan(argv=argv), folder, containment=Containment(containment))
    print("launched", flush=True)
except SpawnError as error:
    print("failed", error.stage, flush=True)
sys.stdin.read()
"""


class Launcher:
    """A process that launches one recorded run and then waits to be killed. A child of the test: `kill()` it."""

    def __init__(
        self,
        folder: Path,
        containment: str,
        argv: list[str],
        *,
        program: Path | None = None,
        commit: bool = True,
        mask: str = "",
    ) -> None:
        how = "commit" if commit else "hold"
        arguments = [str(folder), containment, "-" if program is None else str(program), how, *argv]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(mask),
        )

    def begun(self) -> None:
        """Blocks until the recorder is an orphan: only then is its parent told that it has stopped."""
        said = self._said()
        assert said == "begun", said

    def outcome(self) -> str:
        """What it said: "launched", or "failed" and the stage. Blocks until it does."""
        said = self._said()
        return self._said() if said == "begun" else said

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """SIGKILL, and the reap."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def read_from_new_process(folder: Path, *, remove: bool = False, mask: str = "") -> dict[str, Any]:
    """What a process says about the run in `folder` that has never seen it; `mask`: facilities that it does without.

    A fork: an interpreter of its own would take a second on an emulated machine, for each of hundreds.
    """

    def read() -> dict[str, Any]:
        with without(mask):
            return _read(folder, remove=remove)

    answer: dict[str, Any] = in_fork(read)
    return answer


def _read(folder: Path, *, remove: bool) -> dict[str, Any]:
    try:
        run = RecordedRun.open(folder)
    except (AlreadyGone, RecordInvalid) as error:
        return {"absent": str(error)}
    with run:
        answer: dict[str, Any] = {"now": run.exit_info().to_json()}
        try:
            answer |= run.wait(10).to_json()
        except WaitTimeout:
            answer["kind"] = "timeout"
        answer["liveness"] = run.liveness().value
        if remove:
            try:
                run.remove()
            except Busy as error:
                answer["busy"] = str(error)
    return answer


def build_failpoint(point: str) -> Path:
    """The static program with a recorder that stops itself at `point` (csrc/program/failpoint.h); kept, by its content."""
    csrc = ROOT / "csrc"
    sources = [*sorted(csrc.glob("program/*.c")), *(csrc / name for name in ("child.c", "clone.c", "plan.c", "procstat.c"))]
    content = b"".join(path.read_bytes() for path in [*sources, *sorted(csrc.glob("**/*.h"))])
    target = ROOT / ".cache" / "failpoint" / f"{point}-{hashlib.sha256(content).hexdigest()[:16]}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-std=gnu11", "-Os", "-static", f"-DSPUR_FAILPOINT=SPUR_AT_{point}", f"-I{csrc}"]
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            fresh = Path(folder, point)
            subprocess.run(["musl-gcc", *flags, *map(str, sources), "-o", str(fresh)], check=True)
            fresh.rename(target)
    return target


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans of what the test starts become the test's children; all of them are reaped at the end."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    try:
        yield
        _reap_all()
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(0), 0, 0, 0)


def _reap_all() -> None:
    """Blocks until every child has ended: none of them may live on."""
    while True:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED)
        except ChildProcessError:
            return
