"""The command line: its commands, what becomes of their answers, and of everything that goes wrong."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from spurproc.errors import InvalidArgument, KernelTooOld, SpurprocError, Unsupported, WaitTimeout
from spurproc.inspect.answer import Answer
from spurproc.inspect.escape import printable
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.output import COMMAND, OutputLost, Stream, wants_json, write_answer

__all__ = ["COMMANDS", "exit_code_of", "main"]

PROGRAM = "spurproc-inspect"
_MESSAGE_LIMIT = 600  # characters of a line that may name a path of 4096

COMMANDS = {
    "doctor": "doctor.command",
    "events": "steps.events",
    "exit": "ending",
    "fsck": "steps.fsck",
    "logs": "steps.logs",
    "ls": "steps.ls",
    "show": "show",
    "signal": "signalling",
    "tree": "tree",
    "wait": "waiting",
    "watch": "watch",
}
"""Each command, and the module of this package that has it as `command`."""

_EPILOG = """
TARGET is PID, PID:INODE (the inode of its pidfd, as `show` prints it), the FOLDER of a recorded run, or that of a supervised
step: STATE_DIR/runtime/STEP. STATE_DIR is the state folder of steps, STEP the id of one: JOB.ATTEMPT.STEP.

\b
Exit codes: 0 holds, 1 does not hold or the process failed, 2 usage,
4 timeout and still running, 5 unsupported here.
"""


class _Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        ctx.meta[COMMAND] = cmd_name
        command: click.Command = import_module(f"spurproc.inspect.{COMMANDS[cmd_name]}").command
        return command


@click.command(cls=_Commands, epilog=_EPILOG, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spurproc", prog_name=PROGRAM)
def cli() -> None:
    """Look at processes, recorded runs and this host: what is known, and what that rests on."""


def main(arguments: Sequence[str]) -> int:
    """Run one command and print what it answers; returns the exit code. Never a traceback for what can go wrong outside of us."""
    _escape_what_cannot_be_encoded()
    try:
        return _answered(list(arguments))
    except BrokenPipeError:
        _drop(1)
        return ExitCode.BROKEN_PIPE


def _answered(arguments: list[str]) -> int:
    meta: dict[str, Any] = {}
    try:
        with cli.make_context(PROGRAM, arguments) as context:
            meta = context.meta  # of the command's context too
            answer = cli.invoke(context)
        if isinstance(answer, Answer):
            write_answer(answer, meta[COMMAND], as_json=wants_json(meta))
            return answer.exit_code
        return int(answer or ExitCode.HOLDS)
    except click.exceptions.Exit as end:  # --help and --version
        return end.exit_code
    except BrokenPipeError:
        raise
    except (click.ClickException, SpurprocError, OSError, OutputLost) as error:
        return _failed(error, meta)


def _failed(error: Exception, meta: dict[str, Any]) -> int:
    code = exit_code_of(error)
    if isinstance(error, OutputLost):
        _drop(1)
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    _complain(message)
    if wants_json(meta) and code is not ExitCode.USAGE and not isinstance(error, OutputLost):
        told = {"exit_code": int(code), "error": {"kind": type(error).__name__, "message": message}}
        try:
            Stream(meta[COMMAND], as_json=True).put(told)  # in one line: of a command that goes on, its last
        except OutputLost:
            _drop(1)
    return code


def exit_code_of(error: BaseException) -> ExitCode:
    """What an exception means for whoever called the program."""
    match error:
        case click.ClickException() | InvalidArgument():
            return ExitCode.USAGE
        case WaitTimeout():
            return ExitCode.STILL_RUNNING
        case Unsupported() | KernelTooOld():
            return ExitCode.UNSUPPORTED
        case _:
            return ExitCode.FAILS


def _complain(message: str) -> None:
    if sys.stderr is None:
        return
    if len(message) > _MESSAGE_LIMIT:
        message = f"{message[: _MESSAGE_LIMIT // 2]}...{message[-_MESSAGE_LIMIT // 2 :]}"
    try:
        sys.stderr.write(f"{PROGRAM}: {printable(message)}\n")
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
