"""The main job, end to end: five scripts are submitted to spurd, which is SIGKILLed in the middle, and started again.

    python -m examples.demo [--json] [FOLDER]

What was seen is compared with what is claimed (`examples.claims`), and printed; the exit code is 1 if any of it is false.
It needs no root. Without root, or without cgroup v2, a tree is held together by its supervisor, and all of this holds as well.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import spurproc
from examples.agent import Agent
from examples.claims import CANCELLED, ENDS, SAYS, Claim, Row, Story, claims

ROOT = Path(__file__).resolve().parents[1]
JOBS = Path("examples") / "jobs"
CLEAN_WITHIN_S = 30.0
HEADER = ("job", "script", "attempts", "runs", "how it ended", "how we know", "spurd wait")

Say = Callable[[str], None]


def play(agent: Agent, outputs: Path, say: Say) -> Story:
    """All of it, in order."""
    agent.start()
    cpus = len(agent.ask("status")["totals"]["cpus"])
    agent.ask("drain", "--why", "until all jobs are there")
    jobs = {script: agent.submit(JOBS / script, outputs / f"{script}.%j.%a.out") for script in ENDS}
    say(f"spurd serves {agent.state}; in its queue: {', '.join(f'{job} {script}' for script, job in jobs.items())}")
    agent.ask("undrain")
    for job in list(jobs.values())[:cpus]:
        agent.await_running(job)
    killed = agent.kill()
    unwatched = look_unwatched(agent, jobs, say)
    stubborn = agent.steps()[jobs[CANCELLED]]
    next(stubborn.logs(follow=True))  # by now it ignores SIGTERM
    leader = stubborn.status().leader
    agent.start()
    found = agent.steps()[jobs[CANCELLED]].status()
    same_leader = found.leader == leader and found.liveness.liveness is spurproc.Liveness.ALIVE
    say(f"spurd is started again, and cancels {CANCELLED}")
    second = agent.second()
    agent.ask("cancel", "--why", "the demo is over", str(jobs[CANCELLED]))
    rows = tuple(row_of(agent, script, job, outputs) for script, job in jobs.items())
    left, left_alive, status = left_behind(agent.state), agent.living(), agent.ask("status")
    return Story(
        killed=str(killed),
        alive_unwatched=unwatched[0],
        ended_unwatched=unwatched[1],
        same_leader=same_leader,
        second=str(second),
        rows=rows,
        left_alive=left_alive,
        left_behind=left,
        status=status,
        stopped=str(agent.stop()),
    )


def look_unwatched(agent: Agent, jobs: dict[str, int], say: Say) -> tuple[int, tuple[tuple[str, str], ...]]:
    """While no spurd is there: how many processes of jobs live, and who of those that run beside the stubborn one ends."""
    alive = agent.living()
    steps = agent.steps()
    say(f"spurd was killed; {alive} processes of its jobs live on")
    running = {script: steps[job] for script, job in jobs.items() if job in steps and script != CANCELLED}
    ended = []
    for script, step in running.items():
        if step.status().state is spurproc.StepState.RUNNING:
            ended.append((script, str(step.wait(600, completed=True))))
            say(f"meanwhile {script} has ended: {ended[-1][1]}")
    return alive, tuple(ended)


def row_of(agent: Agent, script: str, job: int, outputs: Path) -> Row:
    """Wait for the end of a job, and tell all that is known of it."""
    code = agent.await_end(job)
    shown = agent.ask("show", str(job))
    last = shown["attempts"][-1]
    written = [line for path in outputs.glob(f"{script}.*.out") for line in path.read_text(errors="replace").splitlines()]
    return Row(
        job=job,
        script=script,
        attempts=len(shown["attempts"]),
        runs=sum(line.startswith(SAYS[script]) for line in written),
        end=end_text(last["exit"]),
        source=last["exit"]["source"],
        code=code,
        cancelled=last["cancelled"],
    )


def end_text(end: dict[str, Any]) -> str:
    """In words; UNKNOWN with its reason."""
    if end["kind"] == "signaled":
        return f"killed by {signal.Signals(end['signal']).name}"
    return f"exited {end['code']}" if end["kind"] == "exited" else f"{end['kind']}: {end.get('reason', '')}"


def left_behind(state: Path) -> tuple[str, ...]:
    """Files of jobs in the state folder, once the agent has had the time to remove them: it does so when an end is told."""
    deadline = time.monotonic() + CLEAN_WITHIN_S
    while (left := files_of_jobs(state)) and time.monotonic() < deadline:
        select.poll().poll(50)
    return left


def files_of_jobs(state: Path) -> tuple[str, ...]:
    """All that stands in the state folder of any job."""
    folders = ("steps/runtime", "spool", "scratch", "hooks")
    return tuple(f"{folder}/{name}" for folder in folders for name in os.listdir(state / folder))


def show(story: Story, found: list[Claim]) -> None:
    """The table, and the claims below it."""
    lines = [
        (str(row.job), row.script, str(row.attempts), str(row.runs), row.end, row.source, str(row.code)) for row in story.rows
    ]
    widths = [max(len(line[column]) for line in (HEADER, *lines)) for column in range(len(HEADER))]
    for line in (HEADER, *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for text, holds in found:
        print("true  " if holds else "FALSE ", text)


def document(story: Story, found: list[Claim]) -> dict[str, Any]:
    """The same as a JSON object."""
    return {**asdict(story), "claims": [{"claim": text, "holds": holds} for text, holds in found]}


def demo(folder: Path, *, as_json: bool) -> int:
    """Play it in `folder`, and judge it. The exit code."""
    outputs = folder / "output"
    if not folder.is_dir() or any(folder.iterdir()):
        raise SystemExit(f"demo: {folder} is no empty folder")
    outputs.mkdir()
    os.chdir(ROOT)  # a job works where it was submitted
    with closing(Agent(folder, secrets.token_hex(8))) as agent:
        story = play(agent, outputs, lambda text: print(text, file=sys.stderr if as_json else sys.stdout, flush=True))
    found = claims(story)
    if as_json:
        print(json.dumps(document(story, found), indent=2))
    else:
        show(story, found)
    return int(not all(holds for _, holds in found))


def main() -> int:
    """Read the command line; without a folder use one that is thrown away, unless something in it tells of a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print what was seen, and the claims, as JSON")
    parser.add_argument("folder", nargs="?", type=Path, help="an empty folder to do it in (default: a temporary one)")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="spurproc-demo-")).resolve()
    code = demo(folder, as_json=options.json)
    if code:
        print(f"demo: a claim is false; all that is left stands in {folder}", file=sys.stderr)
    elif options.folder is None:
        shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
