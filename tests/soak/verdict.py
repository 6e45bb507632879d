"""Whether a history has kept all promises: by what jobs, hooks, locks and strangers say, and then by the agent's books."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator

from tests.agent_crash.stage import cgroups
from tests.agents import NOTHING_LEFT
from tests.soak.history import History
from tests.soak.jobs import Job
from tests.soak.node import Node

_ENDED = ("killed by SIGTERM", "killed by SIGKILL")


def faults(history: History) -> Iterator[str]:
    """Of a history that has settled, while its agent serves."""
    node = history.node
    yield from (f"given away twice: {line}" for line in node.lines("twice"))
    yield from (fault for stranger in node.strangers for fault in stranger.felt())
    yield from _locks(node)
    yield from _books(history)
    for job in history.jobs:
        yield from _job(history, job)


def _locks(node: Node) -> Iterator[str]:
    """Who holds one was run by a job, and has outlived it."""
    for path in sorted(node.facts.glob("lock-*")):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield f"somebody still has {path.name}"
        finally:
            os.close(fd)


def _books(history: History) -> Iterator[str]:
    """Nothing is owed, held or left, and each submission is one job."""
    node = history.node
    for what, wanted in (("attempts", {}), ("claims", {}), ("held", []), ("drains", [])):
        answer = node.ask(what)
        if answer != wanted:
            yield f"{what}: {answer}"
    if node.agent.folders() != NOTHING_LEFT:
        yield f"left: {node.agent.folders()}"
    if cgroups():
        yield f"left: {sorted(cgroups())}"
    ids = Counter(job.job_id or 0 for job in history.jobs)
    if sorted(node.ask("jobs")) != sorted(ids) or max(ids.values(), default=1) > 1:
        yield f"jobs: {sorted(node.ask('jobs'))}, submitted: {sorted(ids)}"


def _job(history: History, job: Job) -> Iterator[str]:
    ends = history.node.ask(f"history {job.job_id}")
    if not ends or len(ends) > job.attempts:
        yield f"job {job.job_id}, {job.kind}: {ends}, and it has had {job.attempts} attempts at most"
    for number, end in enumerate(ends, 1):
        name = f"{job.job_id}.{number}"
        wrong = [*_end(history, job, name, end), *_hooks(history, name, end)]
        yield from (f"attempt {name}, {job.kind}: {end}: {fault}" for fault in wrong)


def _end(history: History, job: Job, name: str, end: str | None) -> Iterator[str]:
    ran = history.node.lines("ran").count(name)
    said = [line.split()[1] for line in history.node.lines("ends") if line.split()[0] == name]
    if ran > 1 or len(said) > 1:
        yield f"it has run {ran} times, and ended {len(said)} times"
    if end is None:
        yield "its end is lost"
    elif said and not job.told_to_end and name not in job.orphaned and end != f"exited {said[0]}":
        yield f"it has said itself that it exits with {said[0]}"
    elif end.startswith("unknown"):
        if name not in job.orphaned:
            yield "somebody was there to see it"
    elif end in job.ends or (job.told_to_end and end in _ENDED):
        if ran != 1 and end.startswith("exited"):
            yield f"it has run {ran} times"
    elif not end.startswith("not started") or ran:
        yield f"not {job.ends}; it has run {ran} times"
    elif not (job.told_to_end or history.was_full or history.cut_short(name) or name in job.orphaned | job.unsupervised):
        yield "nobody has kept it from being started"


def _hooks(history: History, name: str, end: str | None) -> Iterator[str]:
    hooks = [line.split()[0] for line in history.node.lines("hooks") if line.split()[1] == name]
    ran = name in history.node.lines("ran")
    whole = ["prolog", "epilog"]
    if hooks != whole and not (history.was_full and Counter(hooks) <= Counter(whole)) and (ran or hooks):
        yield f"its hooks were {hooks}"
    if ran and "prolog" not in hooks:
        yield "it has run without a prolog"
