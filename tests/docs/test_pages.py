"""Every block of the tutorial and of the how-tos does what its page says."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable
from pathlib import Path

import pytest

import spurproc
from tests.docs.page import Block, blocks, needs, pages, wants_cgroup_namespace
from tests.docs.session import Mistake, Session
from tests.meta.repository import ROOT
from tests.steps import Steps

_PYTHON = ("python", "pycon")
_NOT_RUN = "not run: "


def _param(page: Path) -> object:
    marks = [getattr(pytest.mark, f"needs_{name}")(*arguments) for name, *arguments in map(_need, needs(page))]
    return pytest.param(page, id=str(page.relative_to(ROOT / "docs")), marks=marks)


def _need(text: str) -> list[str | int]:
    """`facility pidfd_exit_info` as the marker's name and its arguments."""
    return [int(part) if part.isdigit() else part for part in text.split()]


@pytest.mark.parametrize("page", [_param(page) for page in pages()])
def test_blocks_do_what_the_page_says(page: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In order, in one folder; what is shown is what is printed."""
    cgroup = request.getfixturevalue("cgroup_root") if wants_cgroup_namespace(page) else None
    try:
        with contextlib.chdir(tmp_path), Session(ROOT, cgroup) as session:
            _do(session, [block for block in blocks(page) if not block.mark.startswith(_NOT_RUN)])
    finally:
        for steps in (tmp_path / "state", tmp_path / "node" / "steps"):  # of a page that launches some, or has a spurd do it
            Steps(steps).end_all()


def _do(session: Session, some: Iterable[Block]) -> None:
    for block in some:
        session.do(block)


@pytest.mark.parametrize("page", [*pages(), ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_not_run_names_what_exists(page: Path) -> None:
    """Python that cannot be run here is compiled, and what it takes from spurproc is there. Of the README nothing is run."""
    for block in blocks(page):
        if block.language in _PYTHON and (block.mark.startswith(_NOT_RUN) or page.name == "README.md"):
            assert _unknown_names(block) == []


def _unknown_names(block: Block) -> list[str]:
    tree = ast.parse(block.text)
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return [node.attr for node in taken if ast.unparse(node.value) == "spurproc" and not hasattr(spurproc, node.attr)]


@pytest.mark.parametrize(
    "text",
    [
        "```pycon\n>>> 6 * 7\n41\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ false\n```\n",
        "```python\nimport spurproc\nspurproc.walk()\n```\n",
        "```{code-block} python\n:caption: a.py\ndef\n```\n",
        "```text\nwho runs this\n```\n",
    ],
)
def test_a_wrong_block_is_found(text: str, tmp_path: Path) -> None:
    """Wrong output, a failure, code that does not compile, and a block of a kind that nobody runs."""
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}")
    with contextlib.chdir(tmp_path), Session(ROOT) as session, pytest.raises((Mistake, AttributeError, SyntaxError)):
        _do(session, blocks(page))


def test_an_unknown_name_is_found(tmp_path: Path) -> None:
    """Also in a block that is not run."""
    page = tmp_path / "page.md"
    page.write_text("% not run: needs another machine\n```python\nimport spurproc\nspurproc.walk()\nspurproc.run([])\n```\n")
    assert [_unknown_names(block) for block in blocks(page)] == [["walk"]]
