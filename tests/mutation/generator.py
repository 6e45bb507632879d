"""Made faults: every place in the core where a guard, a call or a comparison can be taken away, and a sample of them.

Python is read as a syntax tree, C line by line. Which tests ought to notice is told by the file (`selection.toml`).
"""

from __future__ import annotations

import ast
import itertools
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.mutation.catalogue import ROOT, Mutant

__all__ = ["generated"]

_SELECTION = Path(__file__).parent / "selection.toml"
_Change = tuple[int, int, str, str]
"""(start, end, what stands there then, what kind of fault) by offsets in the text."""

_OTHER = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_C_LINES = (
    (re.compile(r"(?<=\bif )\((?!0\)).*\)(?=$|\n)"), "(0)", "guard dropped"),
    (re.compile(r"^( +)(?:close|munmap|syscall|memset|reap|report|close_fd)\b[^=\n]*;$"), r"\1;", "call dropped"),
    (re.compile(r" == (?=-?E[A-Z]+\b)"), " != ", "comparison turned"),
    (re.compile(r" && "), " || ", "and became or"),
    (re.compile(r" \|\| "), " && ", "or became and"),
    (re.compile(r" (?:<) (?=0\b)"), " <= ", "comparison moved"),
)


def generated(count: int, seed: int) -> list[Mutant]:
    """`count` faults of all that can be made, the same for the same tree and `seed`."""
    table = tomllib.loads(_SELECTION.read_text(encoding="utf-8"))
    found: list[Mutant] = []
    for file, tests in table.items():
        path = ROOT / file
        text = path.read_text(encoding="utf-8")
        changes = _python_changes(text) if path.suffix == ".py" else _c_changes(text)
        found += [_mutant(file, text, change, tests) for change in changes]
    return random.Random(seed).sample(found, min(count, len(found)))


def _mutant(file: str, text: str, change: _Change, tests: list[str]) -> Mutant:
    """`find` is all of the file, so that it stands there once."""
    start, end, put, kind = change
    line = text.count("\n", 0, start) + 1
    return Mutant(
        name=f"{file}:{line}: {kind}: {' '.join(text[start:end].split())[:60]}",
        file=file,
        find=text,
        put=text[:start] + put + text[end:],
        tests=tuple(f"tests/{test}" for test in tests),
    )


def _c_changes(text: str) -> Iterator[_Change]:
    at = 0
    for line in text.splitlines(keepends=True):
        if not line.lstrip().startswith(("/*", "*", "//", "#")):
            for pattern, put, kind in _C_LINES:
                for match in pattern.finditer(line.rstrip("\n")):
                    yield at + match.start(), at + match.end(), match.expand(put), kind
        at += len(line)


def _python_changes(text: str) -> Iterator[_Change]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()

    def span(node: ast.stmt | ast.expr) -> tuple[int, int]:
        ends = node.end_lineno or node.lineno, node.end_col_offset or 0
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[ends[0] - 1] + ends[1]
        return len(raw[:begin].decode()), len(raw[:end].decode())

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield from _condition(node, span(node.test), text)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            parts = [text[slice(*span(each))] for each in (node.left, node.comparators[0])]
            yield *span(node), f"({parts[0]}) {_OTHER[type(node.ops[0])]} ({parts[1]})", "comparison turned"
        if isinstance(node, ast.BoolOp):
            parts = [f"({text[slice(*span(each))]})" for each in node.values]
            yield *span(node), (" or " if isinstance(node.op, ast.And) else " and ").join(parts), "and, or changed"
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                yield from _statements([each for each in body if isinstance(each, ast.stmt)], span, text)


def _condition(node: ast.If | ast.While | ast.IfExp, place: tuple[int, int], text: str) -> Iterator[_Change]:
    start, end = place
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise | ast.Return):
        yield start, end, "False", "guard dropped"
    if not isinstance(node, ast.While):
        yield start, end, f"not ({text[start:end]})", "condition turned"


def _statements(body: list[ast.stmt], span: object, text: str) -> Iterator[_Change]:
    assert callable(span)
    calls = [each for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    for call in calls:
        yield *span(call), "pass", "call dropped"
    for first, second in itertools.pairwise(body):
        if first in calls and second in calls:
            (start, middle), (then, end) = span(first), span(second)
            yield start, end, text[then:end] + text[middle:then] + text[start:middle], "calls swapped"
