"""The main job, end to end: five supervised steps, their launcher lost and one supervisor too; found again, five true ends.

    python -m examples.demo [--json] [FOLDER]

Three processes take part, so that nothing is known from memory:

    demo      starts the launcher and SIGKILLs it once the steps run; SIGKILLs one supervisor; then starts the finder
    launcher  launches the five scripts of examples/jobs, each as a supervised step of its own
    finder    knows the state folder alone: adopts the steps, suspends one, terminates one, prints what it can prove
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spurproc

JOBS = Path(__file__).resolve().parent / "jobs"
SCRIPTS = ("compile.sh", "crunch.py", "trap_exec.sh", "daemonise.sh", "stubborn.sh")
"""Job 1, 2, ... in this order."""
SUSPENDED, ORPHANED = "crunch.py", "stubborn.sh"
# The script that ignores SIGTERM would run for ten minutes: it is terminated, by whoever finds it without a supervisor.
KILL_PLAN = spurproc.KillPlan(steps=((signal.SIGTERM, 0.5), (signal.SIGKILL, None)))
LAUNCHED = b"launched\n"
HEADER = ("step", "job", "leader", "supervised", "found", "how it ended", "how we know", "tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the finder can prove about one step."""

    step: spurproc.Step
    found: spurproc.StepStatus
    end: spurproc.ExitInfo
    tree: spurproc.Liveness

    @property
    def job(self) -> str:
        """The script."""
        return script_of(self.step)

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        leader, found = self.found.leader, self.found
        name = "-" if leader is None else f"{leader.pid}:{leader.pidfs_inode or leader.start_ticks}"
        supervised = "yes" if found.supervised else "no more"
        who = (str(self.step.runtime_id), self.job, name, supervised, found.liveness.liveness.value)
        return (*who, str(self.end), self.end.source.value, self.tree.value)

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        leader = self.found.leader
        return {
            "step": str(self.step.runtime_id),
            "job": self.job,
            "leader": None if leader is None else leader.to_json(),
            "supervised": self.found.supervised,
            "found": self.found.liveness.liveness.value,
            "end": self.end.to_json(),
            "tree": self.tree.value,
        }


def script_of(step: spurproc.Step) -> str:
    """Which of the five it runs."""
    return SCRIPTS[step.runtime_id.job_id - 1]


def launch(folder: Path) -> None:
    """Launch every step, say so, and then wait to be killed."""
    for job_id, script in enumerate(SCRIPTS, start=1):
        output = folder / f"{script}.log"
        plan = spurproc.SpawnPlan(argv=[JOBS / script], stdout=output, stderr=output)
        runtime_id = spurproc.RuntimeId(job_id=job_id, run_attempt=1, step_id=0)
        spurproc.launch(spurproc.StepSpec(runtime_id=runtime_id, plan=plan, kill_plan=KILL_PLAN), folder / "state")
    os.write(1, LAUNCHED)
    signal.pause()


def lose_launcher(folder: Path) -> spurproc.ExitInfo:
    """Start the launcher, SIGKILL it as soon as the steps are launched, and say how it ended."""
    read_fd, write_fd = os.pipe()
    plan = spurproc.SpawnPlan(argv=[sys.executable, __file__, "--role", "launcher", folder], stdout=write_fd, stderr=2)
    launcher = spurproc.spawn(plan)
    os.close(write_fd)
    with launcher.pidfd, os.fdopen(read_fd, "rb") as said:
        if said.readline() != LAUNCHED:
            raise SystemExit(f"demo: the launcher failed: {launcher.pidfd.wait()}")
        launcher.pidfd.send_signal(signal.SIGKILL)
        return launcher.pidfd.wait()


def lose_supervisor(folder: Path) -> spurproc.ExitInfo:
    """SIGKILL the supervisor of one step, by its identity."""
    step = next(step for step in spurproc.adopt(folder / "state").steps if script_of(step) == ORPHANED)
    supervisor = step.status().supervisor
    if supervisor is None:
        raise SystemExit(f"demo: {ORPHANED} has no supervisor")
    with supervisor.open() as pidfd:
        pidfd.send_signal(signal.SIGKILL)
        return pidfd.wait()


def find(step: spurproc.Step, found: spurproc.StepStatus) -> Finding:
    """Suspend and resume one step, terminate another, wait for each; tell all that can be proven."""
    if script_of(step) == SUSPENDED:
        with suppress(spurproc.Busy):  # it has ended by now
            step.suspend()
            step.resume()
    if script_of(step) == ORPHANED:
        step.terminate(KILL_PLAN)
    end = step.wait(60, completed=True)
    tree = step.status().liveness.liveness
    step.acknowledge()
    return Finding(step=step, found=found, end=end, tree=tree)


def find_all(folder: Path, *, as_json: bool) -> None:
    """Adopt every step, print the table, or the same as JSON, and remove what nobody needs any more."""
    adoption = spurproc.adopt(folder / "state")
    found = [(step, step.status()) for step in adoption.steps]
    findings = [find(step, status) for step, status in found]
    if as_json:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        print_table([HEADER, *(finding.cells() for finding in findings)])
    shutil.rmtree(folder / "state")  # its host ends with it


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as what stands in them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def demo(chosen: Path | None, *, as_json: bool) -> None:
    """Launcher, its loss, that of a supervisor, and the finder, each in a process of its own."""
    folder = chosen or Path(tempfile.mkdtemp(prefix="spurproc-demo-"))
    folder.mkdir(exist_ok=True)
    say = sys.stderr if as_json else sys.stdout
    print(f"five steps launched; their launcher: {lose_launcher(folder)}", file=say, flush=True)
    print(f"the supervisor of {ORPHANED}: {lose_supervisor(folder)}", file=say, flush=True)
    arguments = ["--role", "finder", *(["--json"] if as_json else []), folder]
    end = spurproc.run([sys.executable, __file__, *arguments])
    if not end.succeeded:
        raise SystemExit(f"demo: the finder failed ({end}); what is left of the steps stands in {folder}")
    if chosen is None:
        shutil.rmtree(folder)


def main() -> None:
    """Read the command line and take the role that it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--role", choices=["demo", "launcher", "finder"], default="demo", help=argparse.SUPPRESS)
    parser.add_argument("folder", nargs="?", type=Path, help="where to keep the runs (default: a temporary folder)")
    options = parser.parse_args()
    if options.role == "launcher":
        launch(options.folder)
    elif options.role == "finder":
        find_all(options.folder, as_json=options.json)
    else:
        demo(options.folder, as_json=options.json)


if __name__ == "__main__":
    main()
