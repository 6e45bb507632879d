"""The shape of the repository: no file too long, nothing left for later, documents that name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.repository import ROOT, documents, text_files

MAX_LINES = 400
# Spelled apart, so that this file passes its own test.
_WORDS = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "T" + "BD", "NotImplemented" + "Error"]
_PHRASES = ["lorem" + " ipsum", "coming" + " soon", "not yet" + " implemented"]
_LATER = re.compile(rf"\b({'|'.join(_WORDS)})\b|(?i:{'|'.join(_PHRASES)})")
_GUARANTEE = ["guarantee", "mechanism", "oldest kernel", "test"]
_TEST_NAME = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")


def test_no_file_is_too_long() -> None:
    """A file of more than 400 lines owns more than one noun. A list in TOML is as long as what it lists."""
    code = [path for path in text_files("src", "csrc", "tests") if path.suffix != ".toml"]
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in code}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_nothing_is_left_for_later() -> None:
    """What is not there is left out, not marked."""
    found: list[str] = []
    for path in [*text_files("src", "csrc", "tests", "docs", "examples", "benchmarks", "tools", "protocol"), *ROOT.glob("*.md")]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _LATER.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_documents_name_tests_that_exist() -> None:
    """Every `tests/...py::name` in a document leads somewhere."""
    missing: list[str] = []
    for document in documents():
        for file, function in _TEST_NAME.findall(document.read_text(encoding="utf-8")):
            path = ROOT / file
            if not path.is_file() or (function and f"def {function}(" not in path.read_text(encoding="utf-8")):
                missing.append(f"{document.relative_to(ROOT)}: {file}::{function}")
    assert missing == []


def guarantees(document: Path) -> list[list[str]]:
    """The cells of each row of the tables of guarantees in it, headings left out."""
    rows: list[list[str]] = []
    inside = False
    for line in document.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[:1] == ["guarantee"]:
            assert cells == _GUARANTEE, document
            inside = True
        elif inside and cells and set(cells[0]) != {"-"}:
            rows.append(cells)
        inside = inside and bool(cells)
    return rows


@pytest.mark.parametrize("name", ["README.md", "docs/explanation/step-life.md", "docs/explanation/supervised-steps.md"])
def test_a_page_of_guarantees_has_a_table_of_them(name: str) -> None:
    """Which the next test can find."""
    assert guarantees(ROOT / name) != []


def test_every_guarantee_has_its_mechanism_its_oldest_kernel_and_its_tests() -> None:
    """Four cells, wherever there is such a table. A whole file is no test: nobody could tell which one bears it out."""
    wrong: list[str] = []
    for document in documents():
        for row in guarantees(document):
            full = len(row) == len(_GUARANTEE) and all(row) and re.match(r"\d\.\d+", row[2])
            if not full or not all(function for _, function in _TEST_NAME.findall(row[3]) or [("", "")]):
                wrong.append(f"{document.relative_to(ROOT)}: {row}")
    assert wrong == []


@pytest.mark.parametrize(
    "name", ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", ".ci/run", "tools/setup"]
)
def test_repository_has(name: str) -> None:
    """What a new reader looks for is there, and not empty."""
    assert (ROOT / name).stat().st_size > 0
