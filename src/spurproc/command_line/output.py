"""What a command answers, and how that reaches standard output: as text for people, or as one JSON document.

Text is cut to no width when it is piped; on a terminal it is wrapped, and nothing is left out. There are no box characters, and
colours on a terminal alone. What cannot be encoded is escaped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from spurproc.command_line.answer import Answer, Block
from spurproc.command_line.escape import escaped_json

__all__ = ["COMMAND", "OutputLost", "Stream", "json_option", "wants_json", "write_answer", "write_bytes"]

_SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes away; new fields may come at any time."""

COMMAND = f"{__name__}.command"
"""The key in click's `meta` under which the frame keeps the command's name."""

_AS_JSON = f"{__name__}.as_json"


def _note_json(context: click.Context, _option: click.Parameter, value: bool) -> bool:
    context.meta[_AS_JSON] = value
    return value


json_option = click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_note_json, help="JSON on standard output.")
"""Gives the command's function `as_json`. The frame knows it too: a command that returns an Answer may ignore it."""


def wants_json(meta: Mapping[str, Any]) -> bool:
    """Whether the command was called with --json; `meta` is click's."""
    return bool(meta.get(_AS_JSON, False))


class OutputLost(Exception):
    """The answer could not be written; the reason is its text."""


def write_answer(answer: Answer, command: str, *, as_json: bool) -> None:
    """Print what `command` found. Raises BrokenPipeError when the reader went away, OutputLost when it cannot be written."""
    _write(_document(answer, command) if as_json else _text(answer.blocks))


def _document(answer: Answer, command: str) -> str:
    envelope = {"schema_version": _SCHEMA_VERSION, "command": command, "exit_code": int(answer.exit_code)}
    return json.dumps(escaped_json(envelope | dict(answer.fields)), indent=2, allow_nan=False) + "\n"


def _text(blocks: Sequence[Block]) -> str:
    from spurproc.command_line.render import rendered  # noqa: PLC0415 - rich is loaded for text alone

    return rendered(blocks, terminal=sys.stdout is not None and sys.stdout.isatty())


class Stream:
    """Output of a command that goes on: each call is on its way at once. With JSON, one object a line (JSON Lines)."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self._command = command
        self._as_json = as_json

    def put(self, fields: Mapping[str, Any], *blocks: Block) -> None:
        """Print `fields` as a line of JSON, or else `blocks`. Raises as `write_answer` does."""
        if self._as_json:
            envelope = {"schema_version": _SCHEMA_VERSION, "command": self._command}
            _write(json.dumps(escaped_json(envelope | dict(fields)), allow_nan=False) + "\n")
        else:
            _write(_text(blocks))


def _write(text: str) -> None:
    if sys.stdout is None:
        raise OutputLost("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(f"standard output: {os.strerror(error.errno or 0)}") from error


def write_bytes(piece: bytes) -> None:
    """Print what somebody else has written, as it is. Raises as `write_answer`."""
    if sys.stdout is None:
        raise OutputLost("standard output is closed")
    left = memoryview(piece)
    while left:
        try:
            left = left[os.write(1, left) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(f"standard output: {error.strerror}") from error
