"""`spurd submit`: put a job into the queue, and wait for its end if that is wanted."""

from __future__ import annotations

from typing import Any

import click

from spurproc.agent.cli.arguments import COUNT, DURATION, KILL_PLAN
from spurproc.agent.cli.exit_code import ExitCode
from spurproc.agent.cli.progress import Progress, submitted_text, warning_line
from spurproc.agent.cli.reach import Reach, agent_options
from spurproc.agent.cli.resources import resource_options
from spurproc.agent.cli.submission import Typed, job_spec, own_or, read_script
from spurproc.agent.cli.waiting import WAITS, connected, wait_for_end
from spurproc.agent.service.replies import Submitted
from spurproc.command_line.answer import Answer, Line
from spurproc.command_line.output import json_option

__all__ = ["command"]

_BEHIND_DASHES = f"{__name__}.behind_dashes"


class _Command(click.Command):
    """Knows whether what is to be run stood behind `--`: then it is a program, else a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        count = len(ctx.params["what"])
        ctx.meta[_BEHIND_DASHES] = given[len(given) - count - 1 : len(given) - count] == ["--"]
        return rest


@click.command("submit", cls=_Command, context_settings={"allow_interspersed_args": False})
@click.argument("what", nargs=-1, required=True, metavar="SCRIPT [ARGS]... | -- PROGRAM [ARGS]...")
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended, and pass its exit on.")
@click.option("--name", metavar="NAME", help="For people, and `%x`; else after what it runs.")
@resource_options
@click.option("--pids", "pids_max", type=COUNT, metavar="N", help="Processes and threads at once, at most.")
@click.option("--time-limit", "time_limit_s", type=DURATION, metavar="TIME", help="It is ended after that: 90, 15m, 2h, 1:30:00.")
@click.option("--output", "-o", metavar="PATTERN", help="Its output: %j job, %a attempt, %s step, %x name, %u user, %N node.")
@click.option("--error", "-e", metavar="PATTERN", help="Its errors; else they go where its output goes.")
@click.option("--input", "-i", "stdin", metavar="PATTERN", help="Its standard input; else it has none.")
@click.option("--workdir", "-D", "work_dir", metavar="DIR", help="Its folder; else the current one. '': a scratch folder.")
@click.option("--export", default="", metavar="NAMES", help="Variables of ours that it gets, or ALL or NONE; else a login's.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable that it gets. May be repeated.")
@click.option("--kill-plan", type=KILL_PLAN, metavar="PLAN", help="How it is ended: SIGTERM:10,SIGKILL.")
@click.option("--requeue", is_flag=True, help="Run it again where the node, and not the job, was at fault.")
@click.option("--key", metavar="KEY", help="Submit it once, however often this is said with the same key.")
@click.option("--user", metavar="USER", help="Run it as another user, by name or number. Only root may.")
@json_option
@agent_options
def command(
    reach: Reach,
    *,
    what: tuple[str, ...],
    waits: bool,
    key: str | None,
    user: str | None,
    as_json: bool,
    **options: Any,
) -> Answer | int:
    """Submit SCRIPT, or a program, as a job.

    The script is read now, and run by its own first line. `-` is standard input. A job gets the current folder, and of our
    environment what a login has.

    Exit code 0 once it is queued, over every crash; with --wait, the job's, as for `wait`.
    """
    context = click.get_current_context()
    if waits:
        context.meta[WAITS] = True
    typed = _typed(what, behind_dashes=context.meta[_BEHIND_DASHES], **options)
    progress = Progress("submit", as_json=as_json)
    client = connected(reach, absent=progress.absent) if waits else reach.connect()
    try:
        script = None if typed.script is None else read_script(typed.script, client.welcome.script_limit_bytes)
        spec = job_spec(typed, own_or(user, client.welcome), script, client.welcome)
        submitted = client.submit(spec, key=key)
    except BaseException:
        client.close()
        raise
    if waits:
        progress.submitted(submitted.job_id, repeated=submitted.repeated, warnings=submitted.warnings)
        return wait_for_end(reach, client, submitted.job_id, progress)
    client.close()
    return _answer(submitted)


def _typed(what: tuple[str, ...], *, behind_dashes: bool, **options: Any) -> Typed:
    script, arguments = (None, what) if behind_dashes else (what[0], what[1:])
    return Typed(script=script, arguments=arguments, **options)


def _answer(submitted: Submitted) -> Answer:
    fields = {"job_id": submitted.job_id, "repeated": submitted.repeated, "warnings": list(submitted.warnings)}
    text = submitted_text(submitted.job_id, repeated=submitted.repeated)
    return Answer(exit_code=ExitCode.DONE, fields=fields, blocks=(Line(text), *map(warning_line, submitted.warnings)))
