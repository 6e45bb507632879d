"""A job of many processes, cancelled: from the request until nothing of it is left; and the bare way to the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from benchmarks.agent_home import MeasuredAgent, agent, job_spec
from benchmarks.bare import program
from benchmarks.cgroup_home import fresh_cgroup
from benchmarks.measure import Contender, Figure, interleave
from benchmarks.members import Tree
from benchmarks.parts import part
from benchmarks.scale import Scale
from benchmarks.step_home import disk
from spurproc.agent.resources.request import ResourceRequest
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.folder import write_text
from spurproc.core.tree.termination import KILL_ALL
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP

CANCELLED = "cancel request to a tree proven empty, and that reported"
BARE = "bare cgroup.kill until populated 0"

_EMPTY_WITHIN_S = 60.0
_LOOK_S = 0.001
_UNTIL_ANSWERED = part(CANCELLED, "until the request is durable, and answered")
_BY_CGROUP = part(CANCELLED, "`Cgroup.kill` and until populated 0, without an agent and a supervisor")
_UNTIL_EMPTY = part(CANCELLED, "until populated 0")
_UNTIL_TOLD = part(CANCELLED, "until a user who waits is told")


def measure_cancel(scale: Scale) -> list[Figure]:
    """`members` processes that ignore SIGTERM; the plan is SIGKILL alone. A report is offered once they are proven gone.

    The job has all CPUs: to die takes its time, and most of it is that of the CPUs that a tree may use.
    """
    numbers = count()
    seen: list[dict[str, float]] = []
    warm_up = min(1, scale.warm_up)
    with ExitStack() as stack:
        folder = stack.enter_context(disk())
        ours = stack.enter_context(agent())

        def cancelled() -> list[float]:
            return [_cancelled(ours, folder / f"ready-{next(numbers)}", scale.members, seen)]

        contenders = [
            Contender(name=CANCELLED, unit="ms", take=cancelled),
            Contender(name=BARE, unit="ms", take=lambda: [_killed(scale.members, _write)]),
            Contender(name=_BY_CGROUP, unit="ms", take=lambda: [_killed(scale.members, Cgroup.kill)]),
        ]
        figures = interleave(contenders, scale.fewer(7), warm_up)
    return figures + [Figure(name=name, unit="ms", rounds=[[one[name]] for one in seen[warm_up:]]) for name in seen[0]]


def _cancelled(ours: MeasuredAgent, ready: Path, members: int, seen: list[dict[str, float]]) -> float:
    """Each member writes a byte once it is there, and reads from a FIFO to which nobody writes."""
    hold = ready.with_suffix(".hold")
    os.mkfifo(hold)
    script = f'exec <>"{hold}" && exec "{program("members")}" {members} ignore'
    whole = ResourceRequest(cpus=len(os.sched_getaffinity(0)))  # on as many CPUs as the bare tree has to die on
    job = ours.submit(job_spec("/bin/sh", "-c", script, kill_plan=KILL_ALL, stdout=str(ready), resources=whole))
    while not ready.exists() or ready.stat().st_size < members:
        time.sleep(_LOOK_S)  # noqa: TID251 - its word is a file
    record = ours.steps.descriptor_of(job, 1, BATCH_STEP).cgroup
    if record is None:
        raise RuntimeError("the job has no cgroup")
    with Cgroup.open(record.path, record.inode) as cgroup:
        begun_ns = time.monotonic_ns()
        ours.client.cancel(AttemptId(job, 1))
        answered_ns = time.monotonic_ns()
        cgroup.wait_empty(_EMPTY_WITHIN_S)
        empty_ns = time.monotonic_ns()
    ours.await_end(job)
    told_ns, offered_ns = time.monotonic_ns(), ours.offers()[job]
    moments = {_UNTIL_ANSWERED: answered_ns, _UNTIL_EMPTY: empty_ns, _UNTIL_TOLD: told_ns}
    seen.append({name: (moment_ns - begun_ns) / 1e6 for name, moment_ns in moments.items()})
    return (offered_ns - begun_ns) / 1e6


def _write(cgroup: Cgroup) -> None:
    write_text(cgroup.fileno(), "cgroup.kill", b"1")


def _killed(members: int, kill: Callable[[Cgroup], object]) -> float:
    with fresh_cgroup("cancel") as cgroup:
        if cgroup is None:
            raise RuntimeError("no cgroup can be made here")
        tree = Tree(members, cgroup, deaf=True)
        begun_ns = time.monotonic_ns()
        kill(cgroup)
        cgroup.wait_empty(_EMPTY_WITHIN_S)
        taken = (time.monotonic_ns() - begun_ns) / 1e6
        tree.end()
    return taken
