"""The command line: its commands, and what everything that goes wrong means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.failure import AgentUnreachable, Interrupted
from spurproc.agent.cli.waiting import WAITS
from spurproc.command_line.frame import Commands, Frame
from spurproc.errors import Busy, InvalidArgument, Unsupported, WaitTimeout

__all__ = ["COMMANDS", "exit_code_of", "main"]

PROGRAM = "spurd"

COMMANDS = {
    "alloc": "alloc",
    "cancel": "acts:cancel",
    "drain": "node:drain",
    "jobs": "listing",
    "logs": "logs",
    "requeue": "acts:requeue",
    "resume": "acts:resume",
    "serve": "serving",
    "show": "show",
    "status": "node:status",
    "submit": "submit",
    "suspend": "acts:suspend",
    "undrain": "node:undrain",
    "wait": "wait",
}
"""Each command, and the module of this package that has it, as `command` or as what stands behind the colon."""

_EPILOG = """
JOB is the id of a job, 7, or exactly one attempt of it, 7.2.

\b
Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no agent answers,
5 this node never could, 6 not now.
`wait` and `submit --wait` pass on the job's: its exit code, or 128 + N for
signal N, or 126 if it never ran, 125 if its end is not known, 124 after the
time of --timeout.
"""


_CODES: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (Interrupted, ExitCode.INTERRUPTED),
    (click.ClickException, ExitCode.USAGE),
    (InvalidArgument, ExitCode.USAGE),
    (WaitTimeout, ExitCode.TIMED_OUT),
    (AgentUnreachable, ExitCode.UNREACHABLE),
    (Unsupported, ExitCode.UNSUPPORTED),
    (Busy, ExitCode.BUSY),
)
_OF_WAITING = (ExitCode.INTERRUPTED, ExitCode.USAGE, ExitCode.TIMED_OUT)


class _Commands(Commands):
    package = "spurproc.agent.cli"
    modules = COMMANDS


@click.command(cls=_Commands, epilog=_EPILOG, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spurproc", prog_name=PROGRAM)
def cli() -> None:
    """Run jobs on this node, each under a supervisor of its own, and say how they end."""


def exit_code_of(error: BaseException, meta: Mapping[str, Any]) -> ExitCode:
    """What an exception means for whoever called the program."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)
    return ExitCode.END_UNKNOWN if WAITS in meta and code not in _OF_WAITING else code


main = Frame(PROGRAM, cli, exit_code_of).main
