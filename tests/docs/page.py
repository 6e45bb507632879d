"""A page of the documentation as a list of blocks.

How a page is written, so that its blocks run in order, in one folder and one Python namespace:

- ```` ```console ````: each line behind `$ ` is given to one bash that lives as long as the page; `> ` continues it. What it
  prints is compared with the lines below it. It has to succeed.
- ```` ```pycon ````: a dialogue with Python, compared as doctest does. ```` ```python ````: is executed.
- ```` ```{code-block} LANGUAGE ```` with `:caption: NAME`: is written to the file NAME, executable if it begins with `#!`.

In what is shown, `...` stands for anything. A comment of the page, which is not rendered, says more. At the top, `% needs: root,
cgroup_v2` are markers of tests/requirements.py, and `% shell: in a cgroup namespace` gives its bash a `/sys/fs/cgroup` of its
own, as in a container. Before a block, `% not run: REASON` keeps it from being run (its Python is compiled, and what it names of
spurproc has to exist), and `% in the clone` gives it a bash of its own in the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.meta.repository import ROOT

__all__ = ["Block", "Command", "blocks", "commands", "needs", "pages", "wants_cgroup_namespace"]

_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\{[\w-]+\} *[\w-]*|[\w-]+)\s*$")
_OPTION = re.compile(r"^:(\w+): *(.*)$")
_COMMENT = re.compile(r"^% *(.*)$")
_NEEDS = re.compile(r"^% needs: *(.*)$", re.MULTILINE)
_CGROUP_NAMESPACE = re.compile(r"^% shell: in a cgroup namespace$", re.MULTILINE)
# What MyST and Sphinx do by themselves: no code of a reader's.
_DIRECTIVES = ("{toctree}", "{include}", "{note}", "{warning}", "{eval-rst}", "{list-table}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. `line` is the number of its first line of text; `caption` a file's name; `mark` the comment before it."""

    page: Path
    line: int
    language: str
    text: str
    caption: str | None = None
    mark: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block, and what the page shows of its output."""

    line: int
    text: str
    shown: str


def pages() -> list[Path]:
    """All whose blocks a reader is told to type."""
    return [page for name in ("tutorial", "how-to") for page in sorted((ROOT / "docs" / name).glob("*.md"))]


def needs(page: Path) -> list[str]:
    """What it needs of the machine."""
    return [name.strip() for found in _NEEDS.findall(page.read_text(encoding="utf-8")) for name in found.split(",")]


def wants_cgroup_namespace(page: Path) -> bool:
    """Whether its shell has a `/sys/fs/cgroup` of its own."""
    return _CGROUP_NAMESPACE.search(page.read_text(encoding="utf-8")) is not None


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of code, in order."""
    lines = page.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        end = lines.index(fence["fence"], at + 1)
        language = fence["language"]
        if not language.startswith(_DIRECTIVES):
            yield _block(page, lines, at, end, language.removeprefix("{code-block}").strip())
        at = end + 1


def _block(page: Path, lines: list[str], fence: int, end: int, language: str) -> Block:
    start, caption = fence + 1, None
    while start < end and (option := _OPTION.match(lines[start])):
        caption = option[2] if option[1] == "caption" else caption
        start += 1
    mark = _COMMENT.match(lines[fence - 1]) if fence else None
    return Block(
        page=page,
        line=start + 1,
        language=language,
        text="\n".join(lines[start:end]).lstrip("\n") + "\n",
        caption=caption,
        mark=mark[1] if mark else "",
    )


def commands(block: Block) -> list[Command]:
    """The commands of a console block. Raises ValueError where it shows output before the first."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(line=number, text=line[2:], shown=""))
            continue
        if not found:
            raise ValueError(f"{block}: output before the first command")
        last = found.pop()
        if line.startswith("> ") and not last.shown:
            last = Command(line=last.line, text=f"{last.text}\n{line[2:]}", shown="")
        else:
            last = Command(line=last.line, text=last.text, shown=f"{last.shown}{line}\n")
        found.append(last)
    return found
