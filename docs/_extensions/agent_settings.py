"""Lists the agent's settings from the table that reads them: `{agent-settings}`. None of it is written by hand."""

from __future__ import annotations

from typing import Any

from directives import add_directives
from sphinx.application import Sphinx

from spurproc.agent.configuration.fields import FIELDS, Field


def settings_text() -> str:
    """One entry a setting."""
    return "\n\n".join(map(_entry, FIELDS))


def _entry(field: Field) -> str:
    default = field.default_words or f"`{field.default}`" if field.default else "empty"
    ways = f"`{field.flag}`, `{field.variable}`"
    return f"`{field.name}`\n: {field.help}\n  {_sentence(field.kind.meaning)} Default: {default}. {ways}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known."""
    return add_directives(app, pictures={}, texts={"agent-settings": settings_text})
