"""`quarantine.json`: trees of which an earlier shutdown could not prove that they are gone, and what became of them since.

While one may live, its CPUs and devices may be in use: no agent serves from this folder. What was recorded is what has to be
gone; of another boot nothing lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from spurproc.agent.node.state_dir import QUARANTINE_NAME, StateDir
from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.observation import Liveness
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import AlreadyGone, InvalidArgument, NotPermitted, RecordInvalid
from spurproc.proto.codec import Record, decode, encode, version_of

__all__ = ["QuarantineRecord", "QuarantineReview", "QuarantinedTree", "review_quarantine", "write_quarantine"]

_LIMIT_BYTES = 1 << 24


class QuarantinedTree(msgspec.Struct, frozen=True, kw_only=True):
    """One tree: its cgroup, if it had one that was joined, and the processes that were seen, each by its identity."""

    name: str
    """Of the step, `<job>.<attempt>.<step>`, or of the hook."""
    reason: str
    """What could not be proven, as a sentence."""
    cgroup: CgroupRecord | None = None
    identity_texts: tuple[str, ...] = msgspec.field(name="processes", default=())

    def __post_init__(self) -> None:
        for text in self.identity_texts:
            ProcessIdentity.from_text(text)
        if self.cgroup is not None:
            CgroupRecord.from_json(self.cgroup.to_json())  # raises for what is none
        if self.cgroup is None and not self.identity_texts:
            raise InvalidArgument(
                "cannot quarantine a tree: neither a cgroup nor a process: nothing could ever tell that it is gone"
            )

    @property
    def processes(self) -> tuple[ProcessIdentity, ...]:
        """Those that were seen."""
        return tuple(ProcessIdentity.from_text(text) for text in self.identity_texts)

    def remains(self) -> str:
        """Why it may still live, as a sentence; empty once all of it is gone. Does not block."""
        if self.cgroup is not None:
            seen = self.cgroup.observe()
            if seen.liveness is not Liveness.GONE:
                return f"{self.name}: its cgroup: {seen.liveness.value}: {seen.detail}"
        for process in self.processes:
            observed = process.observe()
            if observed.liveness is not Liveness.GONE:
                return f"{self.name}: process {process.pid}: {observed.liveness.value}: {observed.detail}"
        return ""


class QuarantineRecord(Record, frozen=True, kw_only=True):
    """All trees of one shutdown; `at_s` is of the wall clock."""

    at_s: float
    trees: tuple[QuarantinedTree, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReview:
    """What a start finds. `remaining` are sentences, one for each tree that may live; `cleared` says that a record was there."""

    remaining: tuple[str, ...] = ()
    cleared: bool = False

    @property
    def quarantined(self) -> bool:
        """Whether nothing may be served yet: the exit code is QUARANTINED."""
        return bool(self.remaining)


def write_quarantine(state_dir: StateDir, trees: Sequence[QuarantinedTree], *, at_s: float) -> None:
    """Record, durably, what a shutdown could not prove gone; by the owner of the folder. Raises SystemCallError."""
    state_dir.folder.replace_file(QUARANTINE_NAME, encode(QuarantineRecord(at_s=at_s, trees=tuple(trees))))


def review_quarantine(state_dir: StateDir) -> QuarantineReview:
    """Look at each recorded tree; the record is removed once all of them are gone. By the owner of the folder.

    A record that cannot be read quarantines too, for nothing tells what it held; removing it is up to an operator.
    """
    try:
        record = _read(state_dir)
    except AlreadyGone:
        return QuarantineReview()
    except (RecordInvalid, NotPermitted) as error:
        reason = f"{error}; if you know that nothing of an earlier agent's jobs lives, remove it"
        return QuarantineReview(remaining=(reason,))
    remaining = tuple(filter(None, (tree.remains() for tree in record.trees)))
    if remaining:
        return QuarantineReview(remaining=remaining)
    state_dir.folder.discard_file(QUARANTINE_NAME)
    return QuarantineReview(cleared=True)


def _read(state_dir: StateDir) -> QuarantineRecord:
    content = state_dir.folder.read_file(QUARANTINE_NAME, _LIMIT_BYTES)
    where = f"{state_dir.path}/{QUARANTINE_NAME}"
    version_of(content, where)
    return decode(content, QuarantineRecord, where)
