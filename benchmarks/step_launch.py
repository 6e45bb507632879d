"""From the launch call to the first line of the leader's main, with everything durable; and where that time goes."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.bench_recorder import SYNCS, three_syncs
from benchmarks.cgroup_home import fresh_cgroup
from benchmarks.measure import Contender, Figure, absent, each_us, interleave
from benchmarks.noting_stepd import SYNCS as SYNC_CALLS
from benchmarks.noting_stepd import noting_program, read_notes
from benchmarks.parts import measure_parts, part
from benchmarks.scale import Scale
from benchmarks.step_home import StampedStep, disk, state_folder
from benchmarks.step_peers import PEERS, lacking
from benchmarks.through import KEPT, kept_us
from tests.steps import Steps

LAUNCH = "launch call to the leader's main"
LAUNCH_OF_PEER = {peer: f"{peer}, start to the job's main" for peer in PEERS}

_CLIENT = "spurproc.client.launch"
_PARTS = {
    "launcher: all of the call": "benchmarks.step_launch:StampedStep",
    "launcher: the record made": "spurproc.client.spec:StepSpec.record",
    "launcher: folder, lock, record and journal, published": f"{_CLIENT}:_publish",
    "launcher: sent to the host": f"{_CLIENT}:_send",
    "launcher: waits until the supervisor is ready": f"{_CLIENT}:_await_ready",
    "launcher: sends start, and waits until it is said to run": f"{_CLIENT}:_start",
    "launcher: its three fsyncs": "os:fsync",
}
_TIMES = 3


def measure_launch(scale: Scale) -> list[Figure]:
    """Ours, the peers and the floors in turn; then in passes of their own the parts."""
    numbers = count()
    with ExitStack() as stack:
        folder = stack.enter_context(disk())
        steps = stack.enter_context(state_folder(folder / "state"))
        contenders = [
            Contender(name=LAUNCH, unit="ms", take=lambda: [_launch_ms(steps, next(numbers)) for _ in range(_TIMES)]),
            Contender(name=SYNCS, unit="us", take=lambda: each_us(partial(three_syncs, folder), _TIMES)),
        ]
        cgroup = stack.enter_context(fresh_cgroup("launch"))
        if cgroup is not None:
            contenders.append(Contender(name=KEPT, unit="us", take=lambda: kept_us("/bin/true", cgroup.fileno(), _TIMES)))
        figures = []
        for peer, name in LAUNCH_OF_PEER.items():
            if why := lacking(peer):
                figures.append(absent(name, "ms", why))
            else:
                contenders.append(Contender(name=name, unit="ms", take=partial(_peer_ms, peer, folder, numbers)))
        figures += interleave(contenders, scale.fewer(3), scale.warm_up)
        figures += measure_parts(LAUNCH, lambda: StampedStep(steps, next(numbers)).end, _PARTS, scale.fewer(3))
        figures += _processors(steps, numbers, scale.fewer(3))
    return figures + _within_supervisor(scale.fewer(3))


def _launch_ms(steps: Steps, number: int) -> float:
    step = StampedStep(steps, number)
    taken = step.launch_ms()
    step.end()
    return taken


def _peer_ms(peer: str, folder: Path, numbers: count[int]) -> list[float]:
    supervised = PEERS[peer](folder / f"peer-{next(numbers)}")
    try:
        return [(supervised.job.begun_ns() - supervised.begun_ns) / 1e6]
    finally:
        supervised.end()


def _processors(steps: Steps, numbers: count[int], times: int) -> list[Figure]:
    """What each of the three takes of a CPU until its launch is confirmed: the rest of the time is waited."""
    names = ("launcher", "host", "supervisor")
    rounds: dict[str, list[list[float]]] = {name: [] for name in names}
    first = StampedStep(steps, next(numbers))
    host = first.descriptor().host.pid
    for _ in range(times):
        before = time.thread_time(), _cpu_ms(host)
        step = StampedStep(steps, next(numbers))
        taken = (time.thread_time() - before[0]) * 1000, _cpu_ms(host) - before[1], _cpu_ms(step.descriptor().supervisor.pid)
        for name, value in zip(names, taken, strict=True):
            rounds[name].append([value])
        step.end()
    first.end()
    return [Figure(name=part(LAUNCH, f"CPU time, {name}"), unit="ms", rounds=rounds[name]) for name in names]


def _cpu_ms(pid: int) -> float:
    """Of its one thread. sched-stats.rst, "/proc/<pid>/schedstat": in nanoseconds"""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e6


def _within_supervisor(times: int) -> list[Figure]:
    """Its effects up to the open gate, as it notes them, and the time before, between and after."""
    rounds: dict[str, list[list[float]]] = {}
    with disk() as folder, state_folder(folder / "state", noting_program(folder)) as steps:
        for number in range(times + 1):  # the first one starts the host
            step = StampedStep(steps, number)
            main_ns, supervisor = step.job.begun_ns(), step.descriptor().supervisor.pid
            notes = [note for note in read_notes(folder) if note.pid == supervisor and note.what not in SYNC_CALLS]
            last_ns, last = step.begun_ns, "the call"
            for note in notes:
                if note.begun_ns > main_ns or not number:
                    break
                rounds.setdefault(f"from {last} to {note.what}", []).append([(note.begun_ns - last_ns) / 1e6])
                rounds.setdefault(f"supervisor: {note.what}", []).append([(note.ended_ns - note.begun_ns) / 1e6])
                last_ns, last = note.ended_ns, note.what
            if number:
                rounds.setdefault("from the last of these to main", []).append([(main_ns - last_ns) / 1e6])
            step.end()
    return [Figure(name=part(LAUNCH, name), unit="ms", rounds=found) for name, found in rounds.items()]
