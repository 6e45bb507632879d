"""Blocks as text, by rich."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from spurproc.command_line.answer import Block, Cell, Facts, Grid, Line
from spurproc.command_line.escape import escaped

__all__ = ["rendered"]

_PIPED_COLUMNS = 1_000_000
"""Wide enough for any line: what is piped is for programs, and no line of it is wrapped."""
_STYLES = {"good": "green", "bad": "bold red", "weak": "yellow", "title": "bold"}


def rendered(blocks: Sequence[Block], *, terminal: bool, columns: int | None = None) -> str:
    """Lines without trailing spaces. On a terminal as wide as that, in colour unless NO_COLOR or TERM=dumb; else plain."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=(columns or _terminal_columns()) if terminal else _PIPED_COLUMNS,
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for index, block in enumerate(blocks):
        if index and not (isinstance(block, Line) and isinstance(blocks[index - 1], Line)):
            file.write("\n")
        console.print(_renderable(block), soft_wrap=False)
    return "".join(line.rstrip(" ") + "\n" for line in file.getvalue().splitlines())


def _terminal_columns() -> int:
    for fd in (1, 2, 0):
        try:
            columns = os.get_terminal_size(fd).columns
        except OSError:
            continue
        if columns > 0:
            return columns
    return 80


def _renderable(block: Block) -> RenderableType:
    match block:
        case Line(cell):
            return _cell(cell)
        case Facts(rows):
            table = _table(header=False)
            table.add_column(no_wrap=True)
            table.add_column(overflow="fold")
            for name, cell in rows:
                table.add_row(Text(escaped(name)), _cell(cell))
            return table
        case Grid(headings, rows, numbers):
            return _grid(headings, rows, numbers)


def _grid(headings: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: frozenset[int]) -> Table:
    table = _table(header=True)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in numbers else "left", overflow="fold", no_wrap=index in numbers)
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _table(*, header: bool) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header, header_style="bold")


def _cell(cell: Cell) -> Text:
    if isinstance(cell, str):
        return Text(escaped(cell), overflow="fold")
    return Text(escaped(cell.text), style=_STYLES[cell.tone], overflow="fold")
