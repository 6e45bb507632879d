"""The lines of a step's journal: what happened, and so what is still owed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from spurproc.core.cgroup.record import CgroupRecord
from spurproc.core.cgroup.usage import CgroupUsage
from spurproc.core.exit_info import ExitInfo
from spurproc.core.tree.termination import Proof
from spurproc.errors import RecordInvalid
from spurproc.proto.codec import decode

__all__ = [
    "Acknowledged",
    "Emptied",
    "ExitObserved",
    "GateOpening",
    "History",
    "HookBegun",
    "HookCompleted",
    "JournalRecord",
    "Launched",
    "Terminating",
    "history_of",
]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    at: float
    """Wall clock, in seconds. For people; nothing is decided by it."""


class GateOpening(_Line, frozen=True, kw_only=True, tag="gate_opening"):
    """The gate opens next. Not fsynced: with another boot nothing of the leader is left either."""


class Launched(_Line, frozen=True, kw_only=True, tag="launched"):
    """The leader was exec'd. Not fsynced."""


class ExitObserved(_Line, frozen=True, kw_only=True, tag="exit_observed"):
    """How the step ended; the first one counts. The leader is reaped only after this is durable."""

    end: ExitInfo


class Terminating(_Line, frozen=True, kw_only=True, tag="terminating"):
    """The kill plan begins, and why. Not fsynced."""

    why: str


class Emptied(_Line, frozen=True, kw_only=True, tag="emptied"):
    """Nothing of the tree is left, how that is known, and what all of it has used. Not fsynced: it can be asked again."""

    proof: Proof
    usage: CgroupUsage | None = None


class HookBegun(_Line, frozen=True, kw_only=True, tag="hook_begun"):
    """A hook runs next: it will not be run another time, whatever happens. `cgroup`: its own, where there are any."""

    hook: str
    cgroup: CgroupRecord | None = None


class HookCompleted(_Line, frozen=True, kw_only=True, tag="hook_completed"):
    """How a hook ended; UNKNOWN where nobody saw it."""

    hook: str
    end: ExitInfo


class Acknowledged(_Line, frozen=True, kw_only=True, tag="acknowledged"):
    """Whoever had to know the end has it in a store of its own."""


JournalRecord = GateOpening | Launched | ExitObserved | Terminating | Emptied | HookBegun | HookCompleted | Acknowledged


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A journal, folded: of each kind the first record, since a record is never taken back."""

    gate_opening: GateOpening | None = None
    launched: Launched | None = None
    exit_observed: ExitObserved | None = None
    terminating: Terminating | None = None
    emptied: Emptied | None = None
    acknowledged: Acknowledged | None = None
    hooks_begun: dict[str, HookBegun] = {}
    hooks_completed: dict[str, ExitInfo] = {}

    @property
    def end(self) -> ExitInfo | None:
        """How the step ended; None before that is recorded."""
        return None if self.exit_observed is None else self.exit_observed.end

    def followed_by(self, record: JournalRecord) -> History:
        """With one more line."""
        match record:
            case HookBegun(hook=hook):
                return replace(self, hooks_begun={hook: record} | self.hooks_begun)
            case HookCompleted(hook=hook, end=end):
                return replace(self, hooks_completed={hook: end} | self.hooks_completed)
        name = _FIELDS[type(record)]
        return self if getattr(self, name) is not None else replace(self, **{name: record})


_FIELDS = {
    GateOpening: "gate_opening",
    Launched: "launched",
    ExitObserved: "exit_observed",
    Terminating: "terminating",
    Emptied: "emptied",
    Acknowledged: "acknowledged",
}


def history_of(lines: Iterable[bytes], where: str) -> History:
    """Fold the lines of a journal. Raises RecordInvalid for one that cannot be read, naming its number."""
    history = History()
    for number, line in enumerate(lines, start=1):
        record: JournalRecord = decode(line, JournalRecord, f"{where}, line {number}")  # type: ignore[arg-type]  # a union
        history = history.followed_by(record)
    if not history.hooks_completed.keys() <= history.hooks_begun.keys():
        raise RecordInvalid(where, "a hook has completed that never began")
    return history
