"""What does it cost that a run is recorded: memory for each job, and time at its launch?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.bare import HERE
from benchmarks.cgroup_home import NONE_HERE, fresh_cgroup
from benchmarks.measure import Contender, Figure, absent, each_us, interleave
from benchmarks.parts import measure_parts
from benchmarks.scale import Scale
from benchmarks.supervisors import recorders, s6_supervises, tinis, uss_kib
from benchmarks.through import KEPT, LOWERED, kept_us, lowered_us
from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn

USS = "recorder, USS"
USS_TINI = "tini, USS"
USS_S6 = "s6-supervise, USS"
RECORDED_MEMORY = "launch_recorded, folder in memory (tmpfs)"
RECORDED_DISK = "launch_recorded, folder on disk, durable"
UNRECORDED = "spawn, detached, in a fresh cgroup"
SYNCS = "three fsyncs on that disk, alone"

_LAUNCH = "spurproc.core.recorded.launch"
_PARTS = {
    "all of it": "benchmarks.bench_recorder:launch_recorded",
    "cgroup root found": f"{_LAUNCH}:choose_root",
    "folder, cgroup and record made": f"{_LAUNCH}:_Launch.make",
    "of which the record": f"{_LAUNCH}:RunFolder.publish",
    "recorder started": f"{_LAUNCH}:_Launch.begin",
    "of which its clone and exec, in C": "spurproc.core.spawn.clone_call:lib.spur_spawn",
    "job's exec waited for": f"{_LAUNCH}:_Launch.confirm",
    "run taken": f"{_LAUNCH}:_Launch.take_run",
}
_MEMORY = Path("/dev/shm")  # noqa: S108 - a tmpfs by its purpose
_PROGRAM = "/bin/true"
_TIMES = 3
_REMOVE_TIMEOUT_S = 5.0
_number = count()


def measure(scale: Scale) -> list[Figure]:
    """USS: `jobs` of each at once, every one with a job that sleeps; one value each.

    A launch is timed to the confirmed exec. Unrecorded, the same plan goes through the same static program into a cgroup that is
    made for it too, so what is added is the recorder, its gate and the folder. In memory an fsync costs nothing; on disk it costs
    what the disk takes.
    """
    with ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_disk(), prefix=".recorder-")))
        figures = _sizes(scale.jobs, disk)
        cgroup = stack.enter_context(fresh_cgroup("recorder"))
        if cgroup is None:
            return figures + [
                absent(name, "us", NONE_HERE) for name in (RECORDED_MEMORY, RECORDED_DISK, UNRECORDED, LOWERED, KEPT)
            ]
        contenders = [
            _each(UNRECORDED, _unrecorded),
            _each(RECORDED_DISK, partial(_recorded, disk)),
            _each(SYNCS, partial(three_syncs, disk)),
            Contender(name=KEPT, unit="us", take=lambda: kept_us(_PROGRAM, cgroup.fileno(), _TIMES)),
        ]
        if os.geteuid() == 0:
            contenders.append(Contender(name=LOWERED, unit="us", take=lambda: lowered_us(_PROGRAM, cgroup.fileno(), _TIMES)))
        if os.path.ismount(_MEMORY):
            memory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY, prefix="spurproc-bench-")))
            recorded = partial(_recorded, memory)
            contenders.append(_each(RECORDED_MEMORY, recorded))
            figures += measure_parts(RECORDED_MEMORY, recorded, _PARTS, scale.rounds)
        else:
            figures.append(absent(RECORDED_MEMORY, "us", f"no tmpfs at {_MEMORY}"))
        return figures + interleave(contenders, scale.rounds, scale.warm_up)


def _disk() -> Path:
    """Where the sources are: /tmp may be in memory."""
    return HERE if os.access(HERE, os.W_OK) else Path(tempfile.gettempdir())


def _sizes(jobs: int, folder: Path) -> list[Figure]:
    figures = [_size(USS, jobs, folder, recorders)]
    for name, command, start in ((USS_TINI, "tini", tinis), (USS_S6, "s6-supervise", s6_supervises)):
        here = shutil.which(command) is not None
        figures.append(_size(name, jobs, folder, start) if here else absent(name, "KiB", f"{command} is not installed"))
    return figures


def _size(name: str, jobs: int, folder: Path, start: Callable[[int, Path], AbstractContextManager[list[int]]]) -> Figure:
    with start(jobs, folder) as pids:
        return Figure(name=name, unit="KiB", rounds=[[uss_kib(pid)] for pid in pids])


def _each(name: str, start: Callable[[], Callable[[], object]]) -> Contender:
    return Contender(name=name, unit="us", take=lambda: each_us(start, _TIMES))


def _unrecorded() -> Callable[[], object]:
    root = find_cgroup_root()
    if root is None:
        raise RuntimeError(NONE_HERE)
    cgroup = Cgroup.create(f"{root.steps}/unrecorded-{next(_number)}")
    spawned = spawn(SpawnPlan(argv=[_PROGRAM], cgroup=cgroup, detach=True))

    def clear() -> None:
        with cgroup, spawned.pidfd:
            cgroup.wait_empty(_REMOVE_TIMEOUT_S)
            cgroup.remove(_REMOVE_TIMEOUT_S)

    return clear


def _recorded(folder: Path) -> Callable[[], object]:
    run = launch_recorded(SpawnPlan(argv=[_PROGRAM]), folder / str(next(_number)))

    def clear() -> None:
        with run:
            run.wait()
            run.remove()

    return clear


def three_syncs(folder: Path) -> Callable[[], object]:
    """A file, its folder and the folder above, as a launch does."""
    path = folder / f"syncs-{next(_number)}"
    path.mkdir()
    descriptors = [os.open(path / "run.json", os.O_CREAT | os.O_WRONLY, 0o600)]
    os.write(descriptors[0], bytes(1000))
    os.fsync(descriptors[0])
    for above in (path, folder):
        descriptors.append(os.open(above, os.O_RDONLY))
        os.fsync(descriptors[-1])

    def clear() -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        shutil.rmtree(path)

    return clear
