"""`spurd alloc`: a bare reservation, held while this program runs."""

from __future__ import annotations

import shlex
from typing import Any

import click

from spurproc.agent.cli.arguments import DURATION
from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.fields import allocation_fields
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.cli.resources import resource_options
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.service.replies import Reserved
from spurproc.command_line.answer import Facts
from spurproc.command_line.output import Stream, json_option

__all__ = ["command"]


@click.command("alloc")
@resource_options
@click.option("--for", "for_s", type=DURATION, metavar="TIME", help="Give it back after that; else when this program ends.")
@json_option
@agent_options
def command(
    reach: Reach,
    request: ResourceRequest,
    for_s: float | None,
    as_json: bool,
) -> int:
    """Hold resources without a job.

    They are reserved now or not at all, and never before a job that waits in the queue; until this program is interrupted, or
    for TIME, without which the node's own time limit of jobs holds. They are given back however it ends, and when the agent does.

    Exit code 0; 5 if the node never has that much, 6 if it is not free, or a job waits.
    """
    stream = Stream("alloc", as_json=as_json)
    with reach.connect() as client:
        reserved = client.alloc(request, for_s=for_s)
        try:
            stream.put({"event": "reserved", **_fields(reserved)}, Facts([(name, text) for name, text in _rows(reserved)]))
            client.await_released()
        except KeyboardInterrupt:
            client.release()
    stream.put({"event": "released", "exit_code": int(ExitCode.DONE)})
    return ExitCode.DONE


def _fields(reserved: Reserved) -> dict[str, Any]:
    return {"allocation": allocation_fields(reserved.allocation), "env": dict(reserved.env), "for_s": reserved.for_s}


def _rows(reserved: Reserved) -> list[tuple[str, str]]:
    from spurproc.agent.cli.show import allocation_text  # noqa: PLC0415 - not for --json

    limit = [] if reserved.for_s is None else [("limit", f"{reserved.for_s:g} s")]
    variables = [(name, shlex.quote(text)) for name, text in reserved.env.items()]
    return [("has", allocation_text(reserved.allocation)), *limit, *variables]
