"""The main job, end to end: launch five jobs, lose the launcher, find the jobs again, and tell how each truly ended.

    python -m examples.demo [--json] [FOLDER]

Three processes take part, so that nothing is known from memory:

    demo      starts the launcher, SIGKILLs it once the jobs run, then starts the finder
    launcher  launches the five scripts of examples/jobs, each recorded in a folder of its own
    finder    knows the folders alone: finds each job, terminates two, waits for the rest, prints what it can prove
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spurproc

JOBS = Path(__file__).resolve().parent / "jobs"
SCRIPTS = ("compile.sh", "crunch.py", "trap_exec.sh", "daemonise.sh", "stubborn.sh")
# The daemon and the script that ignores SIGTERM would run for ten minutes: these two are terminated.
TERMINATED = ("daemonise.sh", "stubborn.sh")
KILL_PLAN = spurproc.KillPlan(steps=((signal.SIGTERM, 0.5), (signal.SIGKILL, None)))
LAUNCHED = b"launched\n"
HEADER = ("job", "identity", "contained by", "found", "how it ended", "how we know", "tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the finder can prove about one job."""

    job: str
    identity: spurproc.ProcessIdentity
    containment: spurproc.Containment
    found: spurproc.Liveness
    end: spurproc.ExitInfo
    tree: spurproc.Liveness

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        name = f"{self.identity.pid}:{self.identity.pidfs_inode or self.identity.start_ticks}"
        return (self.job, name, self.containment.value, self.found.value, str(self.end), self.end.source.value, self.tree.value)

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return {
            "job": self.job,
            "identity": self.identity.to_json(),
            "containment": self.containment.value,
            "found": self.found.value,
            "end": self.end.to_json(),
            "tree": self.tree.value,
        }


def launch(folder: Path) -> None:
    """Launch every job, say so, and then wait to be killed."""
    for script in SCRIPTS:
        output = folder / f"{script}.log"
        plan = spurproc.SpawnPlan(argv=[JOBS / script], stdout=output, stderr=output)
        spurproc.launch_recorded(plan, folder / script)
    os.write(1, LAUNCHED)
    signal.pause()


def lose_launcher(folder: Path) -> spurproc.ExitInfo:
    """Start the launcher, SIGKILL it as soon as the jobs are launched, and say how it ended."""
    read_fd, write_fd = os.pipe()
    plan = spurproc.SpawnPlan(argv=[sys.executable, __file__, "--role", "launcher", folder], stdout=write_fd, stderr=2)
    launcher = spurproc.spawn(plan)
    os.close(write_fd)
    with launcher.pidfd, os.fdopen(read_fd, "rb") as said:
        if said.readline() != LAUNCHED:
            raise SystemExit(f"demo: the launcher failed: {launcher.pidfd.wait()}")
        launcher.pidfd.send_signal(signal.SIGKILL)
        return launcher.pidfd.wait()


def find(run: spurproc.RecordedRun, script: str, found: spurproc.Liveness) -> Finding:
    """Terminate one job or wait for it; tell all that can be proven."""
    identity = run.leader
    if identity is None:
        raise SystemExit(f"demo: {script} never ran: {run.exit_info()}")
    if script in TERMINATED:
        run.terminate(KILL_PLAN)
    end = run.wait(timeout_s=60)
    if run.liveness() is not spurproc.Liveness.GONE:
        run.terminate(KILL_PLAN)  # what outlived its leader
    tree = run.liveness()
    run.remove()
    return Finding(job=script, identity=identity, containment=run.containment, found=found, end=end, tree=tree)


def find_all(folder: Path, *, as_json: bool) -> None:
    """Find every job by its folder alone, and print the table, or the same as JSON."""
    with ExitStack() as stack:
        runs = {script: stack.enter_context(spurproc.RecordedRun.open(folder / script)) for script in SCRIPTS}
        found = {script: run.liveness() for script, run in runs.items()}
        findings = [find(run, script, found[script]) for script, run in runs.items()]
    if as_json:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        print_table([HEADER, *(finding.cells() for finding in findings)])


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as what stands in them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def demo(chosen: Path | None, *, as_json: bool) -> None:
    """Launcher, its loss, and the finder, each in a process of its own."""
    folder = chosen or Path(tempfile.mkdtemp(prefix="spurproc-demo-"))
    folder.mkdir(exist_ok=True)
    lost = lose_launcher(folder)
    print(f"five jobs launched; their launcher: {lost}", file=sys.stderr if as_json else sys.stdout, flush=True)
    arguments = ["--role", "finder", *(["--json"] if as_json else []), folder]
    end = spurproc.run([sys.executable, __file__, *arguments])
    if not end.succeeded:
        raise SystemExit(f"demo: the finder failed ({end}); what is left of the runs stands in {folder}")
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
