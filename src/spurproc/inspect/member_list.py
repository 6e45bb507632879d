"""The members of a tree as `show` lists them: bounded, and whether they are all."""

from __future__ import annotations

from typing import Any

from spurproc.command_line.answer import Block, Grid, Line, Toned
from spurproc.core.tree.process_walk import ProcessRow, proc_shows_all
from spurproc.inspect.process_facts import member_name

__all__ = ["MemberList"]


class MemberList:
    """Those that can be seen now, bounded."""

    def __init__(self, rows: list[ProcessRow], limit: int, error: str | None = None) -> None:
        self._count = len(rows)
        self._shown = [(row, member_name(row)) for row in rows[:limit]]
        self._error = error
        self._whole = error is None and proc_shows_all()

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        listed = [
            {
                "pid": row.pid,
                "parent_pid": row.parent_pid,
                "process_group": row.process_group,
                "session": row.session,
                "state": row.state,
                "start_ticks": row.start_ticks,
                "name": name,
            }
            for row, name in self._shown
        ]
        return {"count": self._count, "listed": listed, "proc_shows_all": self._whole, "error": self._error}

    def blocks(self) -> list[Block]:
        """For people."""
        if self._error is not None:
            return [Line(Toned(f"members: {self._error}", "bad"))]
        count = f"members seen: {self._count}"
        if self._count > len(self._shown):
            count += f", of which {len(self._shown)} are listed"
        if not self._whole:
            count += "; /proc does not show all there may be"
        if not self._shown:
            return [Line(count)]
        grid = [(str(row.pid), str(row.parent_pid), row.state, name or "-") for row, name in self._shown]
        return [Line(count), Grid(("PID", "PARENT", "STATE", "NAME"), grid, numbers=frozenset((0, 1)))]
