"""Directives that put in their place what a function draws or writes from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Told = Mapping[str, Callable[[], str]]


def add_directives(app: Sphinx, *, pictures: Told, texts: Told) -> dict[str, Any]:
    """Make them known, by their names; what a picture's function returns is SVG, what a text's returns is Markdown."""
    for name, drawn in pictures.items():
        app.add_directive(name, type(name, (_Picture,), {"drawn": staticmethod(drawn)}))
    for name, written in texts.items():
        app.add_directive(name, type(name, (_Text,), {"written": staticmethod(written)}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class _Picture(SphinxDirective):
    drawn: Callable[[], str]

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", self.drawn(), format="html")]


class _Text(SphinxDirective):
    written: Callable[[], str]

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(self.written())
