"""One attempt as the agent's store has it: what is owed, what was found out, what it holds."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store.column import plain_in, record_in
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId

__all__ = ["COLUMNS", "NOT_KNOWN", "AttemptRow", "AttemptState", "CancelIntent", "DamagedRow", "Obligation", "row_of"]

T = TypeVar("T")


class AttemptState(enum.Enum):
    """Where the life of an attempt stands. Its order and what leads where is the agent's table, not this list."""

    ACCEPTED = "accepted"
    PROLOG = "prolog"
    LAUNCHING = "launching"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"
    EPILOG = "epilog"
    RELEASING = "releasing"
    REPORTING = "reporting"
    FORGETTING = "forgetting"
    HELD = "held"


class Obligation(enum.Enum):
    """What an attempt still owes once its last step is resolved, in this order."""

    EPILOG = "epilog"
    RELEASE = "release"
    REPORT = "report"
    SPOOL = "spool"


class CancelIntent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants it to end. `uid` is who, None for the agent itself; `why` is for people."""

    uid: int | None
    why: str
    at: float
    """Wall clock."""
    at_boot_s: float | None = None
    """The same moment by `boot_clock`, which no step of the wall clock moves. None in a record of an agent that did not know."""
    given_up: bool = False
    """By its controller, which waits for no report."""

    def after(self, first: CancelIntent) -> CancelIntent:
        """What stands once this one comes: the first, and that it is given up, whenever that is said."""
        return first if first.given_up or not self.given_up else msgspec.structs.replace(first, given_up=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """All of it but its spec, which may be large and is asked for when it is needed."""

    attempt: AttemptId
    state: AttemptState
    held_because: str | None
    accepted_at: float
    uid: int
    """As whom it runs."""
    cancel: CancelIntent | None
    end: ExitInfo | None
    started_at: float | None
    """Wall clock; known, if it ever ran, once it has ended."""
    node_fault: str | None
    """What went wrong with the node, where that and not the job is to blame for its end."""
    launched: bytes | None
    """The descriptor of its step, as it stood before that was told to start, or what else is known. None: it never was."""
    allocation: Allocation | None
    """What it was given. Held until the release is discharged. None: nobody knew, and it was over when it got this row."""
    outcomes: Mapping[Obligation, str]
    """Of the obligations that are discharged."""
    report_refusals: int
    report_refused_because: str | None

    @property
    def owed(self) -> tuple[Obligation, ...]:
        """What is not discharged, in order: the first is the next."""
        return tuple(obligation for obligation in Obligation if obligation not in self.outcomes)

    @property
    def holds_resources(self) -> bool:
        """Whether its allocation may not be given to another."""
        return Obligation.RELEASE not in self.outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRow:
    """One that cannot be read. It stays as it is, and stops no other."""

    attempt: AttemptId
    why: str


NOT_KNOWN = b""
"""In place of the allocation or the spec of one that was found when only its end could be told."""

COLUMNS = (
    "job_id, run_attempt, state, held_because, accepted_at, uid, cancel, end, started_at, node_fault,"
    " launched, allocation, epilog, release, report, spool, report_refusals, report_refused_because"
)


def row_of(fields: sqlite3.Row | tuple[object, ...], where: str) -> AttemptRow:
    """From the `COLUMNS` of a row. Raises RecordInvalid, which names the column."""
    values = dict(zip(COLUMNS.replace(",", " ").split(), fields, strict=True))
    attempt = AttemptId(plain_in(values["job_id"], int, where), plain_in(values["run_attempt"], int, where))
    name = f"{where}, attempt {attempt}"

    def plain(column: str, kind: Any) -> Any:
        return plain_in(values[column], kind, f"{name}, {column}")

    return AttemptRow(
        attempt=attempt,
        state=_state(values["state"], name),
        held_because=_text(values["held_because"]),
        accepted_at=plain("accepted_at", float),
        uid=plain("uid", int),
        cancel=_optional(values["cancel"], CancelIntent, f"{name}, cancel"),
        end=_optional(values["end"], ExitInfo, f"{name}, end"),
        started_at=plain("started_at", float | None),
        node_fault=_text(values["node_fault"]),
        launched=plain("launched", bytes | None),
        allocation=_allocation(values, name),
        outcomes={one: str(values[one.value]) for one in Obligation if values[one.value] is not None},
        report_refusals=plain("report_refusals", int),
        report_refused_because=_text(values["report_refused_because"]),
    )


def _state(value: object, where: str) -> AttemptState:
    try:
        return AttemptState(value)
    except ValueError:
        raise RecordInvalid(where, f"its state is {value!r:.100}, which this program does not know") from None


def _allocation(values: Mapping[str, object], name: str) -> Allocation | None:
    """Only of what is over nobody need know it: something else may live, on what it was given."""
    if values["allocation"] == NOT_KNOWN and values["end"] is not None:
        return None
    return record_in(values["allocation"], Allocation, f"{name}, allocation")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _optional(value: object, kind: type[T], where: str) -> T | None:
    return None if value is None else record_in(value, kind, where)
