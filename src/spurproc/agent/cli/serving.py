"""`spurd serve`: the agent itself. Its options are the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from spurproc.agent.configuration.fields import FIELDS, Field
from spurproc.agent.configuration.loading import load_configuration

__all__ = ["command"]


def _option(field: Field) -> Callable[[Any], Any]:
    default = field.default_words or (field.default if isinstance(field.default, str) else "")
    words = f"{field.help} Else {field.variable}, or: {default or 'none'}."
    return click.option(field.flag, field.name, metavar=_placeholder(field), help=words)


def _placeholder(field: Field) -> str:
    """By the unit in its name, or what its last word is."""
    last = field.name.rpartition("_")[2]
    return {"s": "SECONDS", "bytes": "BYTES", "dir": "DIR", "path": "PATH"}.get(last, "VALUE")


def _settings(function: Callable[..., Any]) -> Callable[..., Any]:
    for field in reversed(FIELDS):
        function = _option(field)(function)
    return function


@click.command("serve")
@click.option("--config", metavar="FILE", help="The configuration, in TOML. Else SPURD_CONFIG; else one that need not be there.")
@_settings
def command(config: str | None, **settings: str | None) -> int:
    """Be the agent of this node, until SIGTERM.

    It may be stopped, killed, upgraded and started again at any time: jobs go on, and the next one takes them up. What is typed
    here goes before variables, and these before the file.

    Exit code: 0 stopped, 1 it could not go on, 2 a setting means nothing, 75 in quarantine, 125 its state folder was lost.
    """
    from spurproc.agent.daemon.serve import serve  # noqa: PLC0415 - nobody else needs all of the agent

    typed = {name: text for name, text in settings.items() if text is not None}
    return serve(load_configuration(typed, file=config))
