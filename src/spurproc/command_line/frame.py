"""Around every command: what becomes of its answer, and of everything that goes wrong."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import click

from spurproc.command_line.answer import Answer
from spurproc.command_line.escape import printable
from spurproc.command_line.output import COMMAND, OutputLost, Stream, wants_json, write_answer
from spurproc.errors import SpurprocError

__all__ = ["Commands", "Frame"]

_MESSAGE_LIMIT = 600  # characters of a line that may name a path of 4096
_HOLDS = 0
_USAGE = 2
_BROKEN_PIPE = 141


class Commands(click.Group):
    """Imports a command when it is called. A class of its own for each program, which says where its commands are."""

    package: ClassVar[str]
    modules: ClassVar[Mapping[str, str]]
    """Each command, and the module of `package` that has it as `command`, or as what stands behind a colon."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """For `--help`."""
        return sorted(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for one that there is not. What it imports may be missing: that is the caller's to say."""
        if cmd_name not in self.modules:
            return None
        ctx.meta[COMMAND] = cmd_name
        module, _, name = self.modules[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"{self.package}.{module}"), name or "command")
        return command


class Frame:
    """One program. `exit_code_of` says what an exception means for who called it; 2 is for a command line that means nothing.

    It is given click's `meta` too: what it means may depend on the command.
    """

    def __init__(self, program: str, cli: click.Command, exit_code_of: Callable[[BaseException, Mapping[str, Any]], int]) -> None:
        self._program = program
        self._cli = cli
        self._exit_code_of = exit_code_of

    def main(self, arguments: Sequence[str]) -> int:
        """Run one command and print what it answers; returns the exit code. No traceback for what can go wrong outside of us."""
        _escape_what_cannot_be_encoded()
        try:
            return self._answered(list(arguments))
        except BrokenPipeError:
            _drop(1)
            return _BROKEN_PIPE

    def _answered(self, arguments: list[str]) -> int:
        meta: dict[str, Any] = {}
        try:
            with self._cli.make_context(self._program, arguments) as context:
                meta = context.meta  # of the command's context too
                answer = self._cli.invoke(context)
            if isinstance(answer, Answer):
                write_answer(answer, meta[COMMAND], as_json=wants_json(meta))
                return answer.exit_code
            return int(answer or _HOLDS)
        except click.exceptions.Exit as end:  # --help and --version
            return end.exit_code
        except BrokenPipeError:
            raise
        except (click.ClickException, SpurprocError, OSError, OutputLost) as error:
            return self._failed(error, meta)

    def _failed(self, error: Exception, meta: dict[str, Any]) -> int:
        code = self._exit_code_of(error, meta)
        if isinstance(error, OutputLost):
            _drop(1)
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        self._complain(message)
        if wants_json(meta) and code != _USAGE and not isinstance(error, OutputLost):
            told = {"exit_code": int(code), "error": {"kind": type(error).__name__, "message": message}}
            try:
                Stream(meta[COMMAND], as_json=True).put(told)  # in one line: of a command that goes on, its last
            except OutputLost:
                _drop(1)
        return code

    def _complain(self, message: str) -> None:
        if sys.stderr is None:
            return
        if len(message) > _MESSAGE_LIMIT:
            message = f"{message[: _MESSAGE_LIMIT // 2]}...{message[-_MESSAGE_LIMIT // 2 :]}"
        try:
            sys.stderr.write(f"{self._program}: {printable(message)}\n")
            sys.stderr.flush()
        except OSError:  # nobody is there to be told
            _drop(2)


def _escape_what_cannot_be_encoded() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop(fd: int) -> None:
    """Let what is still in Python's buffer go nowhere, or the interpreter would complain of it when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)
