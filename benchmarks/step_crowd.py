"""Many steps at once: what memory each takes, whether anybody wakes up while nothing happens, and what it takes to adopt them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Contender, Figure, absent, interleave
from benchmarks.noting_stepd import noting_program, read_notes
from benchmarks.parts import part
from benchmarks.scale import Scale
from benchmarks.step_home import disk, state_folder
from benchmarks.step_peers import CONMON, PEERS, S6, lacking
from benchmarks.supervisors import recorders, uss_kib
from spurproc.client.adoption import adopt
from spurproc.proto.descriptor import Descriptor
from tests.steps import Steps

USS = "supervisor of a step, USS"
USS_HOST = "host of that many steps, USS"
USS_BARE = "recorder (static C), USS"
USS_OF_PEER = {S6: f"{S6}, USS of a job", CONMON: f"{CONMON}, USS of a job"}
IDLE_SUPERVISOR = "wake-ups of an idle supervisor"
IDLE_HOST = "wake-ups of an idle host"
ADOPT, ADOPT_QUARTER, ADOPT_HALF = "adopt, all", "adopt, a quarter of them", "adopt, half of them"

_QUIET_S = 0.2
_TIMES = 3


def measure_crowd(scale: Scale) -> list[Figure]:
    """Memory and idleness of `steps` live steps; the peers have as many jobs as other benchmarks, `jobs`."""
    with disk() as folder, state_folder(folder / "state") as steps:
        running = [_sleeper(steps) for _ in range(scale.steps)]
        host, pids = running[0].host.pid, [one.supervisor.pid for one in running]
        figures = [
            Figure(name=USS, unit="KiB", rounds=[[uss_kib(pid)] for pid in pids]),
            Figure(name=USS_HOST, unit="KiB", rounds=[[uss_kib(host)]]),
        ]
        figures += _idle(host, pids, 2 * scale.idle_s)
    figures += _grown(scale.jobs)
    with disk() as folder:
        with recorders(scale.jobs, folder) as recorder_pids:
            figures.append(Figure(name=USS_BARE, unit="KiB", rounds=[[uss_kib(pid)] for pid in recorder_pids]))
        return figures + [_peer_size(peer, scale.jobs, folder) for peer in PEERS]


def _sleeper(steps: Steps) -> Descriptor:
    """One more step that does nothing."""
    return steps.descriptor(steps.launch(["sleep", "3600"]))


def _grown(jobs: int) -> list[Figure]:
    """What a supervisor has for itself by and by: as it is forked, and after each of its effects; to look at it adds a little."""
    with disk() as folder, state_folder(folder / "state", noting_program(folder, memory=True)) as steps:
        pids = [_sleeper(steps).supervisor.pid for _ in range(jobs)]
        rounds: dict[str, list[list[float]]] = {}
        for note in read_notes(folder):
            if note.pid in pids and note.uss_kib:
                rounds.setdefault(note.what, []).append([note.uss_kib])
    return [Figure(name=part(USS, f"after {what}"), unit="KiB", rounds=found) for what, found in rounds.items()]


def _idle(host: int, supervisors: list[int], watched_s: float) -> list[Figure]:
    """How often each gave up the CPU of its own accord while nothing happened. proc_pid_status(5), voluntary_ctxt_switches"""
    time.sleep(_QUIET_S)  # noqa: TID251 - they still do what comes after a launch
    before = [_switches(pid) for pid in (host, *supervisors)]
    time.sleep(watched_s)  # noqa: TID251 - that nothing happens has no event
    woken = [_switches(pid) - count for pid, count in zip((host, *supervisors), before, strict=True)]
    return [
        Figure(name=IDLE_HOST, unit="", rounds=[woken[:1]]),
        Figure(name=IDLE_SUPERVISOR, unit="", rounds=[[max(woken[1:])]]),
    ]


def _switches(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _peer_size(peer: str, jobs: int, folder: Path) -> Figure:
    name = USS_OF_PEER[peer]
    if why := lacking(peer):
        return absent(name, "KiB", why)
    with ExitStack() as stack:
        sizes = []
        for number in range(jobs):
            supervised = PEERS[peer](folder / f"{peer.split(maxsplit=1)[0]}-{number}")
            stack.callback(supervised.end)
            supervised.job.begun_ns()
            sizes.append([uss_kib(supervised.pid)])
    return Figure(name=name, unit="KiB", rounds=sizes)


def measure_adoption(scale: Scale) -> list[Figure]:
    """Microseconds for each of `adopted` live steps, and of a half and a quarter of them, in state folders of their own."""
    shares = {ADOPT: 1, ADOPT_HALF: 2, ADOPT_QUARTER: 4}
    with ExitStack() as stack:
        folder = stack.enter_context(disk())
        contenders = []
        for name, divisor in shares.items():
            steps = stack.enter_context(state_folder(folder / f"state-{divisor}"))
            count = scale.adopted // divisor
            for _ in range(count):
                _sleeper(steps)
            contenders.append(Contender(name=name, unit="us", take=_adoptions(steps, count)))
        return interleave(contenders, scale.fewer(4), scale.warm_up)


def _adoptions(steps: Steps, count: int) -> Callable[[], list[float]]:
    def take() -> list[float]:
        taken = []
        for _ in range(_TIMES):
            begun = time.perf_counter_ns()
            found = adopt(steps.path)
            taken.append((time.perf_counter_ns() - begun) / 1000 / count)
            if len(found.steps) != count:
                raise RuntimeError(f"{len(found.steps)} of {count} steps were adopted")
        return taken

    return take
