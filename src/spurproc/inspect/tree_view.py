"""A process tree as lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spurproc.command_line.answer import Block, Cell, Grid, Line, Toned
from spurproc.inspect.tree_members import Escape, Member
from spurproc.inspect.tree_usage import Usage, state_word

__all__ = ["Shown", "tree_blocks", "tree_fields"]

_HEADINGS = ("PID", "STATE", "CPU s", "CPU %", "RSS MiB", "NAME")
_NUMBERS = frozenset((0, 2, 3, 4))
_DEEPEST = 10
"""Levels that are drawn by indentation; a deeper one is told by its number, or nothing would be left of 80 columns."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A member, and its usage; None when it went away while it was read."""

    member: Member
    usage: Usage | None

    @property
    def alive(self) -> bool:
        """Whether it was seen to live when it was read."""
        return self.usage is not None and not self.usage.row.ended

    @property
    def state(self) -> str:
        """In a word."""
        return "gone" if self.usage is None else state_word(self.usage.row)


def tree_fields(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """One object a process, parents before their children: `parent_pid` and `depth` give the tree."""
    return [_fields(one) for one in shown]


def _fields(shown: Shown) -> dict[str, Any]:
    member, usage = shown.member, shown.usage
    row = member.row if usage is None else usage.row
    return {
        "pid": row.pid,
        "parent_pid": row.parent_pid,
        "depth": member.depth,
        "start_ticks": row.start_ticks,
        "state": shown.state,
        "kernel_state": None if usage is None else row.state,
        "name": None if usage is None else usage.name,
        "cpu_s": _rounded(None if usage is None else usage.cpu_s, 2),
        "cpu_percent": _rounded(None if usage is None else usage.cpu_percent, 1),
        "rss_bytes": None if usage is None else usage.rss_bytes,
        "member_by": sorted(way.value for way in member.ways),
        "escaped": None if member.escape is None else member.escape.value,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def tree_blocks(shown: Sequence[Shown], omitted: int) -> list[Block]:
    """The table, in which the names are indented, and how many are not in it."""
    blocks: list[Block] = []
    if shown:
        blocks.append(Grid(_HEADINGS, [_cells(one) for one in shown], numbers=_NUMBERS))
    if omitted:
        blocks.append(Line(f"... {omitted} more"))
    return blocks


def _cells(shown: Shown) -> tuple[Cell, ...]:
    usage = shown.usage
    if usage is None:
        return (str(shown.member.row.pid), Toned("gone", "weak"), "-", "-", "-", _name_cell(shown, "-"))
    return (
        str(usage.row.pid),
        _state_cell(shown),
        "-" if usage.cpu_s is None else f"{usage.cpu_s:.2f}",
        "-" if usage.cpu_percent is None else f"{usage.cpu_percent:.1f}",
        "-" if usage.rss_bytes is None else f"{usage.rss_bytes / (1 << 20):.1f}",
        _name_cell(shown, usage.name or "-"),
    )


def _state_cell(shown: Shown) -> Cell:
    plain = ("running", "sleeping", "idle")
    return shown.state if shown.state in plain else Toned(shown.state, "weak")


def _name_cell(shown: Shown, name: str) -> Cell:
    member = shown.member
    mark = _mark(member)
    text = _indent(member.depth) + name
    return text if mark is None else Toned(f"{text} ({mark})", "bad" if member.escape is Escape.CGROUP else "weak")


def _indent(depth: int) -> str:
    if depth == 0:
        return ""
    level = f"[{depth}] " if depth > _DEEPEST else ""
    return "  " * (min(depth, _DEEPEST) - 1) + "`- " + level


def _mark(member: Member) -> str | None:
    match member.escape:
        case Escape.CGROUP:
            return "escaped: outside of the cgroup"
        case Escape.PARENT:
            return f"re-parented to {member.row.parent_pid}"
        case _:
            return None
