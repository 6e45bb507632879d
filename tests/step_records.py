"""Folders of steps as they stand on disk, without anybody who runs them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from spurproc import Proof, RuntimeId, SpawnPlan, StepSpec
from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.proto.codec import encode
from spurproc.proto.journal_record import Acknowledged, Emptied, ExitObserved, GateOpening, JournalRecord, Launched
from spurproc.proto.launch_record import LaunchRecord

ENDED: tuple[JournalRecord, ...] = (
    GateOpening(at=1.0),
    Launched(at=2.0),
    ExitObserved(at=3.0, end=ExitInfo.from_wait_status(0, source=ExitSource.WAITED)),
    Emptied(at=4.0, proof=Proof.CGROUP_EMPTY),
)
ACKNOWLEDGED: tuple[JournalRecord, ...] = (*ENDED, Acknowledged(at=5.0))


@cache
def _record() -> LaunchRecord:
    return StepSpec(runtime_id=RuntimeId(1, 1, 0), plan=SpawnPlan(argv=["true"])).record()


def write_step(state: Path, runtime_id: RuntimeId, journal: tuple[JournalRecord, ...] = ENDED, *, name: str = "") -> Path:
    """The folder of a step of which that has happened; `name`: under another than its own."""
    state.mkdir(mode=0o700, exist_ok=True)
    (state / "runtime").mkdir(mode=0o700, exist_ok=True)
    folder = state / "runtime" / (name or str(runtime_id))
    folder.mkdir(mode=0o700)
    (folder / "lock").touch(mode=0o600)
    (folder / "launch.json").write_bytes(encode(msgspec.structs.replace(_record(), runtime_id=runtime_id)))
    (folder / "journal.jsonl").write_bytes(b"".join(encode(line) + b"\n" for line in journal))
    return folder
