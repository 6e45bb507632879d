"""From the end of a leader to its durable record, and to who waits for it; and how many durable writes a step makes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.measure import Contender, Figure, absent, each_us, interleave
from benchmarks.noting_stepd import SYNCS as SYNC_CALLS
from benchmarks.noting_stepd import Note, noting_program, read_notes
from benchmarks.parts import part
from benchmarks.scale import Scale
from benchmarks.step_home import StampedStep, disk, state_folder
from benchmarks.step_peers import PEERS, lacking
from spurproc.proto.launch_record import Hook
from tests.steps import WAIT_S, Steps

RECORDED = "exit to durable record"
TOLD = "exit to a client that waits"
RECORDED_BY_PEER = {peer: f"{peer}, exit to its record, as seen by one who watches the folder" for peer in PEERS}
APPEND = "one append and fdatasync on that disk, alone"
BEFORE_START = "fsyncs before start"
EACH = "fsyncs of a supervisor for each record that has to be durable"

_DURABLE = frozenset({"launched", "exit_observed", "hook_begun", "hook_completed", "acknowledged"})
_PARTS = {
    RECORDED: ("until the supervisor is at it", "of which its fdatasync"),
    TOLD: ("from the record to its word", "from that until the client is back"),
}


def measure_end(scale: Scale) -> list[Figure]:
    """The supervisor notes when its fdatasync has returned; who waits is asleep in `Step.wait` by the time of the end."""
    numbers = count()
    figures = []
    with disk() as folder, state_folder(folder / "state", noting_program(folder)) as steps:
        ends: list[dict[str, float]] = []
        contenders = [
            Contender(name=TOLD, unit="us", take=lambda: [_end_of_ours(steps, folder, next(numbers), ends)]),
            Contender(name=APPEND, unit="us", take=lambda: each_us(partial(_append, folder), 3)),
        ]
        for peer, name in RECORDED_BY_PEER.items():
            if why := lacking(peer):
                figures.append(absent(name, "us", why))
            else:
                contenders.append(Contender(name=name, unit="us", take=partial(_end_of_peer, peer, folder, numbers)))
        figures += interleave(contenders, scale.fewer(3), scale.warm_up)
    kept = ends[scale.warm_up :]
    return figures + [Figure(name=name, unit="us", rounds=[[end[name]] for end in kept]) for name in kept[0]]


def _end_of_ours(steps: Steps, folder: Path, number: int, ends: list[dict[str, float]]) -> float:
    """Until it was told; what else there is to say of that end goes into `ends`."""
    step = StampedStep(steps, number)
    supervisor = step.descriptor().supervisor.pid
    told_ns, ended_ns = step.told_ns(), step.job.ended_ns()
    step.end()
    notes: dict[str, Note] = {}
    for note in read_notes(folder):
        if note.pid == supervisor and note.ended_ns > ended_ns:
            notes.setdefault(note.what, note)
    record, sync, word = (notes[what] for what in ("RECORD_EXIT_OBSERVED", "fdatasync", "TELL_ENDED"))
    points = ended_ns, record.begun_ns, sync.begun_ns, sync.ended_ns, word.ended_ns, told_ns
    _, begun, syncing, synced, said, back = ((point - ended_ns) / 1000 for point in points)
    ends.append({RECORDED: synced})
    for name, value in zip(_PARTS[RECORDED], (begun, synced - syncing), strict=True):
        ends[-1][part(RECORDED, name)] = value
    for name, value in zip(_PARTS[TOLD], (said - synced, back - said), strict=True):
        ends[-1][part(TOLD, name)] = value
    return back


def _end_of_peer(peer: str, folder: Path, numbers: count[int]) -> list[float]:
    supervised = PEERS[peer](folder / f"peer-{next(numbers)}")
    try:
        return [(supervised.recorded_ns() - supervised.job.ended_ns()) / 1000]
    finally:
        supervised.end()


def _append(folder: Path) -> Callable[[], object]:
    path = folder / "journal"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, bytes(300))
    os.fdatasync(fd)

    def clear() -> None:
        os.close(fd)
        path.unlink()

    return clear


def measure_durable_writes() -> list[Figure]:
    """Of one step with both hooks: the launcher's up to `start`, its host's and its supervisor's; then those up to its end."""
    hook = Hook(argv=("/bin/true",))
    with disk() as folder, state_folder(folder / "state", noting_program(folder)) as steps, _counted() as ours:
        steps.launch(["/bin/true"], start=False)  # the folders above it are there now, and a host
        before, begun = len(_syncs(folder)), len(ours)
        step = steps.launch(["/bin/true"], start=False, prolog=hook, epilog=hook)
        until_start = len(ours) - begun + len(_syncs(folder)) - before
        before = len(_syncs(folder))
        step.start()
        step.wait(WAIT_S, completed=True)
        step.acknowledge()
        records = sum(name in _DURABLE for name in steps.events(step))
        each = (len(_syncs(folder)) - before) / records
    return [
        Figure(name=BEFORE_START, unit="", rounds=[[until_start]]),
        Figure(name=EACH, unit="", rounds=[[each]]),
    ]


def _syncs(folder: Path) -> list[Note]:
    return [note for note in read_notes(folder) if note.what in SYNC_CALLS]


@contextmanager
def _counted() -> Iterator[list[str]]:
    """The fsyncs of this process."""
    made: list[str] = []
    calls = {name: getattr(os, name) for name in SYNC_CALLS}

    def counting(name: str) -> Callable[[int], None]:
        def counted(fd: int) -> None:
            made.append(name)
            calls[name](fd)

        return counted

    try:
        for name in SYNC_CALLS:
            setattr(os, name, counting(name))
        yield made
    finally:
        for name, call in calls.items():
            setattr(os, name, call)
