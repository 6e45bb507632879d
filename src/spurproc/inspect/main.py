"""The command line: its commands, and what everything that goes wrong means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from spurproc.command_line.frame import Commands, Frame
from spurproc.errors import InvalidArgument, KernelTooOld, Unsupported, WaitTimeout
from spurproc.inspect.exit_code import ExitCode

__all__ = ["COMMANDS", "exit_code_of", "main"]

PROGRAM = "spurproc-inspect"

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


class _Commands(Commands):
    package = "spurproc.inspect"
    modules = COMMANDS


@click.command(cls=_Commands, epilog=_EPILOG, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spurproc", prog_name=PROGRAM)
def cli() -> None:
    """Look at processes, recorded runs and this host: what is known, and what that rests on."""


def exit_code_of(error: BaseException, _meta: Mapping[str, Any]) -> ExitCode:
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


main = Frame(PROGRAM, cli, exit_code_of).main
