"""Lists the agent's settings from the table that reads them: `{agent-settings}`. None of it is written by hand."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

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


class _Settings(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(settings_text())


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known."""
    app.add_directive("agent-settings", _Settings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
