"""What a supervisor writes: the durable-write half of its effects. Only the holder of the step's lock makes one."""

from __future__ import annotations

import time

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.cgroup.usage import CgroupUsage
from spurproc.core.durable.journal import JOURNAL_NAME, Journal
from spurproc.core.exit_info import ExitInfo
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import Containment
from spurproc.core.tree.termination import Proof
from spurproc.proto.codec import encode
from spurproc.proto.descriptor import DESCRIPTOR_NAME, Descriptor
from spurproc.proto.journal_record import (
    Acknowledged,
    Emptied,
    ExitObserved,
    GateOpening,
    History,
    HookBegun,
    HookCompleted,
    JournalRecord,
    Launched,
    Terminating,
    history_of,
)
from spurproc.proto.step_folder import StepFolder

__all__ = ["StepRecords"]

_RESERVE_BYTES = 16384
"""For all that a step can still have to say, so that a full disk takes no end away."""


class StepRecords:
    """The journal and the descriptor of one step, for its only writer. Owns the journal."""

    def __init__(self, step: StepFolder) -> None:
        """Opens the journal: what a writer before has left there is durable then. Raises RecordInvalid, and AlreadyGone."""
        self._step = step
        self._journal = Journal.open(step.folder)
        self.history: History = history_of(self._journal.lines, f"{step.folder.path}/{JOURNAL_NAME}")
        self._journal.reserve(_RESERVE_BYTES)

    def describe(
        self,
        supervisor: ProcessIdentity,
        host: ProcessIdentity,
        cgroup: CgroupRecord | None,
        leader: ProcessIdentity | None = None,
        *,
        inherited: bool = False,
        not_enforced: tuple[str, ...] = (),
    ) -> None:
        """Write the descriptor; `leader`: it stands at its gate, inside the cgroup. Whole or not at all, and not fsynced.

        `inherited`: another supervisor has begun the step, so that nothing of it descends from this one.
        """
        bare = Containment.PROCESS_GROUP if inherited else Containment.DESCENDANTS
        descriptor = Descriptor(
            runtime_id=self._step.runtime_id,
            supervisor_text=supervisor.to_text(),
            host_text=host.to_text(),
            containment=bare if cgroup is None else Containment.CGROUP,
            cgroup=cgroup,
            joined=leader is not None,
            leader_text=None if leader is None else leader.to_text(),
            not_enforced=not_enforced,
        )
        self._step.folder.replace_file(DESCRIPTOR_NAME, encode(descriptor), sync=False)

    def gate_opening(self) -> None:
        """Appended, not fsynced."""
        self._append(GateOpening(at=time.time()), sync=False)

    def launched(self) -> None:
        """Appended, not fsynced: it says something of the leader's process, which no other boot has."""
        self._append(Launched(at=time.time()), sync=False)

    def exit_observed(self, end: ExitInfo) -> None:
        """Once: nothing is written over an end that is there. Durable when it returns, as is each that does not say otherwise."""
        self._append(ExitObserved(at=time.time(), end=end))

    def terminating(self, why: str) -> None:
        """Appended, not fsynced."""
        self._append(Terminating(at=time.time(), why=why), sync=False)

    def emptied(self, proof: Proof, usage: CgroupUsage | None) -> None:
        """Appended, not fsynced."""
        self._append(Emptied(at=time.time(), proof=proof, usage=usage), sync=False)

    def hook_begun(self, hook: str, cgroup: CgroupRecord | None) -> None:
        """From here on it will not be run another time. `cgroup` is the one it is to run in."""
        self._append(HookBegun(at=time.time(), hook=hook, cgroup=cgroup))

    def hook_completed(self, hook: str, end: ExitInfo) -> None:
        """How it ended."""
        self._append(HookCompleted(at=time.time(), hook=hook, end=end))

    def acknowledged(self) -> None:
        """Whoever had to know has it."""
        self._append(Acknowledged(at=time.time()))

    def _append(self, record: JournalRecord, *, sync: bool = True) -> None:
        self._journal.append(encode(record), sync=sync)
        self.history = self.history.followed_by(record)

    def close(self) -> None:
        """Let go. May be called twice."""
        self._journal.close()
