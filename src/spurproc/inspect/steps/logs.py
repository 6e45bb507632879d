"""`spurproc-inspect logs`: what a step has written, from the file that its launch named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import click

from spurproc.client.step import Step
from spurproc.command_line.output import json_option, write_bytes
from spurproc.errors import InvalidArgument, SpurprocError, Unsupported
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.steps.arguments import state_dir_argument, step_argument
from spurproc.proto.runtime_id import RuntimeId

__all__ = ["command"]


@click.command("logs")
@state_dir_argument
@step_argument
@click.option("--stderr", "stream", flag_value="stderr", default=False, help="Its standard error instead of its output.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the step is over.")
@json_option
def command(state_dir: str, runtime_id: RuntimeId, stream: str | None, follow: bool, as_json: bool) -> ExitCode:
    """Print what STEP has written, byte for byte.

    Exit code 0; 1 if it has none, or its file cannot be read, or was removed or replaced. There is no JSON of it.
    """
    if as_json:
        raise Unsupported("cannot print a step's output as JSON: it is bytes, and printed as they are")
    name: Literal["stdout", "stderr"] = "stderr" if stream == "stderr" else "stdout"
    for piece in _pieces(Step.open(state_dir, runtime_id), name, follow=follow):
        write_bytes(piece)
    return ExitCode.HOLDS


class _NoOutput(SpurprocError):
    """The step has no such file: a fact about it, and no mistake in the command line."""


def _pieces(step: Step, stream: Literal["stdout", "stderr"], *, follow: bool) -> Iterator[bytes]:
    try:
        return step.logs(stream=stream, follow=follow)
    except InvalidArgument as error:
        raise _NoOutput(str(error)) from None
