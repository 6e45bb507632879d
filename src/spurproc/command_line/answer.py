"""What a command answers: values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Answer", "Block", "Cell", "Facts", "Grid", "Line", "Toned"]


@dataclass(frozen=True, slots=True)
class Toned:
    """Text with a colour on a terminal. The text alone says all."""

    text: str
    tone: Literal["good", "bad", "weak", "title"]


Cell = str | Toned


@dataclass(frozen=True, slots=True)
class Line:
    """A paragraph."""

    cell: Cell


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, one below the other; the names padded to the longest."""

    rows: Sequence[tuple[str, Cell]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. `numbers`: the columns that stand to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: frozenset[int] = frozenset()


Block = Line | Facts | Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command found. Strings as they came from outside: both ways out escape them."""

    exit_code: int
    fields: Mapping[str, Any]
    blocks: Sequence[Block] = field(default=())
