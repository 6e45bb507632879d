"""What has happened to a step, as its journal tells it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from spurproc.client.following import Following
from spurproc.client.place import StepPlace
from spurproc.core.cgroup.usage import CgroupUsage
from spurproc.core.durable.journal import JOURNAL_NAME, read_journal, sync_journal
from spurproc.core.exit_info import ExitInfo
from spurproc.core.recorded.watch import wait_for
from spurproc.proto.codec import decode
from spurproc.proto.journal_record import (
    Acknowledged,
    Emptied,
    ExitObserved,
    GateOpening,
    HookBegun,
    HookCompleted,
    JournalRecord,
    Launched,
    Terminating,
    history_of,
)
from spurproc.proto.owed import is_over

__all__ = ["EventKind", "JournalEvent", "journal_events"]


class EventKind(enum.Enum):
    """What a line of a journal tells."""

    HOOK_BEGUN = "hook_begun"
    """A prolog or epilog begins."""
    HOOK_COMPLETED = "hook_completed"
    """It is over; UNKNOWN where nobody saw its end."""
    GATE_OPENING = "gate_opening"
    """The leader stands before its exec, and is let go."""
    LAUNCHED = "launched"
    """The leader was exec'd."""
    TERMINATING = "terminating"
    """The kill plan begins."""
    EXIT_OBSERVED = "exit_observed"
    """How the step ended."""
    EMPTIED = "emptied"
    """Nothing of its tree is left."""
    ACKNOWLEDGED = "acknowledged"
    """Whoever had to know the end has it."""


_KINDS: dict[type, EventKind] = {
    HookBegun: EventKind.HOOK_BEGUN,
    HookCompleted: EventKind.HOOK_COMPLETED,
    GateOpening: EventKind.GATE_OPENING,
    Launched: EventKind.LAUNCHED,
    Terminating: EventKind.TERMINATING,
    ExitObserved: EventKind.EXIT_OBSERVED,
    Emptied: EventKind.EMPTIED,
    Acknowledged: EventKind.ACKNOWLEDGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEvent:
    """One line. `at` is the wall clock when it was written, in seconds.

    `end`: of the step, or of the hook. `hook`: `prolog` or `epilog`. `detail`: why it is terminated, or how it is known that
    nothing is left; then `usage` is what all of it has used, where there was a cgroup.
    """

    kind: EventKind
    at: float
    end: ExitInfo | None = None
    hook: str | None = None
    detail: str | None = None
    usage: CgroupUsage | None = None


def journal_events(place: StepPlace, *, follow: bool) -> Iterator[JournalEvent]:
    """Each line once, in order. `follow`: until nothing is owed but the report; blocks meanwhile."""
    told = 0
    following = Following(place)
    with closing(following.news()) as news:
        watch = None
        while True:
            events, over = _read(place)
            yield from events[told:]
            told = len(events)
            if not follow or over or following.completed:
                return
            if watch is not None:
                wait_for(watch)
            watch = next(news)


def _read(place: StepPlace) -> tuple[list[JournalEvent], bool]:
    with place.opened() as opened:
        lines = read_journal(opened.step.folder)
        if lines:
            sync_journal(opened.step.folder)
        where = f"{opened.step.folder.path}/{JOURNAL_NAME}"
        over = is_over(opened.launch, history_of(lines, where))
        return [_event(line, f"{where}, line {number}") for number, line in enumerate(lines, start=1)], over


def _event(line: bytes, where: str) -> JournalEvent:
    record: JournalRecord = decode(line, JournalRecord, where)  # type: ignore[arg-type]  # a union
    kind = _KINDS[type(record)]
    match record:
        case HookBegun(at=at, hook=hook):
            return JournalEvent(kind=kind, at=at, hook=hook)
        case HookCompleted(at=at, hook=hook, end=end):
            return JournalEvent(kind=kind, at=at, hook=hook, end=end)
        case ExitObserved(at=at, end=end):
            return JournalEvent(kind=kind, at=at, end=end)
        case Terminating(at=at, why=why):
            return JournalEvent(kind=kind, at=at, detail=why)
        case Emptied(at=at, proof=proof, usage=usage):
            return JournalEvent(kind=kind, at=at, detail=proof.value, usage=usage)
        case _:
            return JournalEvent(kind=kind, at=record.at)
