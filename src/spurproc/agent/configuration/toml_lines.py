"""In which line of a TOML document each key stands, which the parser of the standard library does not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

__all__ = ["KeyPath", "broken_statement", "key_lines"]

KeyPath = tuple[str, ...]


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of each key and table of a document that can be parsed.

    Lines are put together until they parse: TOML is a sequence of statements, no first part of which is one.
    """
    lines: dict[KeyPath, int] = {}
    header = ""
    for first, statement in _statements(text):
        if statement.lstrip().startswith("["):
            header = statement
            found = tomllib.loads(statement)
        else:
            found = tomllib.loads(header + statement)
        for path in _paths(found):
            lines.setdefault(path, first)
    return lines


def broken_statement(text: str) -> int | None:
    """The line, from 1, where the first statement begins that never ends in anything that parses; None where each does."""
    last = 0
    for first, statement in _statements(text):
        last = first + statement.count("\n") - 1
    return last + 1 if last < text.count("\n") + 1 else None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    gathered, first = "", 1
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: TOML knows no other ends of lines
        if not gathered:
            first = number
        gathered += line + "\n"
        if _parses(gathered):
            yield first, gathered
            gathered = ""


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except ValueError:  # a TOMLDecodeError is one; so is what int() raises for too many digits
        return False
    return True


def _paths(table: Mapping[str, object], above: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))
