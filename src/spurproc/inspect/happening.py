"""What there is to tell of an event, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spurproc.core.exit_info import ExitInfo, ExitSource
from spurproc.errors import InvalidArgument
from spurproc.inspect.proc_events import EventKind, Lost, ProcEvent

__all__ = ["Happening", "lost", "plain", "wait_status_fields"]

_SIGNAL = 0x7F
"""The part of a wait status that is a signal, wait(2)."""
_NOT_TOLD = "ended: how is not told, its main thread ended before the last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something to tell. `at_ns` is by the clock of the events; `text` says for people what `fields` say for programs."""

    at_ns: int
    event: str
    pid: int | None = None
    text: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def lost(event: Lost, at_ns: int) -> Happening:
    """Some events were lost, of whatever process: what follows may have gaps."""
    count = "an unknown number" if event.how_many is None else str(event.how_many)
    text = f"{count} of the events of all processes did not arrive"
    return Happening(at_ns=at_ns, event="lost", text=text, fields={"count": event.how_many})


def wait_status_fields(main_status: int | None, last_status: int) -> dict[str, Any]:
    """How a process ended, by the wait statuses of its main and of its last thread.

    The two are equal where all threads end at once, exit_group(2); and a signal ends all. Else the kernel has told its parent one
    of the two, and the events do not say which.
    """
    status = last_status if main_status == last_status or last_status & _SIGNAL else None
    if status is None:
        return {"wait_status": None, "text": _NOT_TOLD}
    try:
        info = ExitInfo.from_wait_status(status, source=ExitSource.NONE)
    except InvalidArgument as error:
        return {"wait_status": status, "text": str(error)}
    told: dict[str, Any] = {"wait_status": status, "text": str(info), "kind": info.kind.value}
    if info.code is not None:
        return told | {"code": info.code}
    return told | {"signal": info.signal, "core_dumped": info.core_dumped}


def plain(event: ProcEvent) -> tuple[str, dict[str, Any]]:
    """An event that changes nothing of who is a member: its text and its fields."""
    numbers = event.numbers
    match event.kind:
        case EventKind.UID | EventKind.GID:
            return f"{numbers[0]}, effective {numbers[1]}", {"real": numbers[0], "effective": numbers[1]}
        case EventKind.TRACE:
            return (f"by {numbers[0]}" if numbers[0] else "no more"), {"tracer_pid": numbers[0] or None}
        case EventKind.SESSION:
            return "of its own", {}
        case _:
            return "", {}
