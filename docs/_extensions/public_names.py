"""Makes links of the names that the reference documents, wherever a page or a docstring writes one as code.

`RecordedRun.wait` or `run(["true"])` in a page leads to the reference; within the documentation of a class, so does a bare
`wait`. What the reference does not have stays code.
"""

from __future__ import annotations

import enum
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

import spurproc

_HOMES = ("spurproc", "spurproc.errors")
_NAME = re.compile(r"(?:spurproc\.)?([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)
_ERRORS = [name for name in spurproc.__all__ if name in vars(spurproc.errors)]
_COMPOUND = [name for name in spurproc.__all__ if re.search(r"[a-z][A-Z]", name)]  # no word of English
_BARE_NAME = re.compile(rf"(?<![`\w.])({'|'.join(sorted({*_ERRORS, *_COMPOUND}))})(?![`\w])")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_MADE_ELSEWHERE = {"Cgroup", "Facilities", "Pidfd", "RecordedRun", "Step"}  # by their class methods, not by a call of the class


class LinkPublicNames(SphinxPostTransform):
    """Once all pages are read: the literals that name something documented become links to it."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Replace them in this page."""
        for literal in list(self.document.findall(nodes.literal)):
            if not _is_linked(literal) and (found := self._find(literal.astext(), _class_around(literal))):
                docname, anchor, title = found
                self._link(literal, docname, anchor, title)

    def _find(self, text: str, around: str | None) -> tuple[str, str, str] | None:
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        objects = self.env.domains.python_domain.objects
        for prefix in (*([around] if around else ()), *_HOMES):
            title = f"{prefix}.{match[1]}"
            if title in objects:
                return objects[title].docname, objects[title].node_id, title
        return None

    def _link(self, literal: nodes.literal, docname: str, anchor: str, title: str) -> None:
        link = make_refnode(self.app.builder, self.env.docname, docname, anchor, literal.deepcopy(), title)
        literal.replace_self(link)


def _is_linked(node: nodes.Node) -> bool:
    """Whether it stands in a link, a heading or a signature already."""
    kinds = (nodes.reference, nodes.title, addnodes.pending_xref, addnodes.desc_signature)
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def _class_around(node: nodes.Node) -> str | None:
    """The full name of the class whose documentation this is part of."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, addnodes.desc) and node["objtype"] in {"class", "exception"}:
            signature = node.next_node(addnodes.desc_signature)
            return signature["ids"][0] if signature and signature["ids"] else None
    return None


def mark_code(_app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Docstrings are plain words: `name` is code in them, and so is a bare name of ours. Indented lines stay as they are."""
    paragraphs = "\n".join(lines).split("\n\n")
    marked = [part if part.startswith("    ") else _mark(part) for part in paragraphs]
    lines[:] = "\n\n".join(marked).split("\n")


def _mark(paragraph: str) -> str:
    return _SPAN.sub(r"``\1``", _BARE_NAME.sub(r"`\1`", paragraph))


def show_call(
    _app: Sphinx, what: str, _name: str, obj: object, _options: object, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """No signature for what is not made by a call; and the default of a field as one would write it."""
    is_enum = isinstance(obj, type) and issubclass(obj, enum.Enum)
    if what == "class" and (is_enum or getattr(obj, "__name__", "") in _MADE_ELSEWHERE):
        return "", ""
    if signature and "<factory>" in signature:
        return signature.replace("<factory>", "{}"), returns or ""
    return None


def find_home(app: Sphinx, env: Any, node: addnodes.pending_xref, content: nodes.Element) -> nodes.Node | None:
    """A type in a signature is named by the module that it stands in; the reference has it under its public name."""
    objects = env.domains.python_domain.objects
    name = str(node.get("reftarget", "")).rpartition(".")[2]
    for title in (f"spurproc.{name}", f"spurproc.errors.{name}"):
        if title in objects:
            return make_refnode(app.builder, node["refdoc"], objects[title].docname, objects[title].node_id, content, title)
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_post_transform(LinkPublicNames)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("autodoc-process-signature", show_call)
    app.connect("missing-reference", find_home)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
