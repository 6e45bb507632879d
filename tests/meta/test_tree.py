"""The shape of the repository: no file too long, nothing left for later, documents that name what exists."""

from __future__ import annotations

import re

import pytest

from tests.meta.repository import ROOT, documents, text_files

MAX_LINES = 400
# Spelled apart, so that this file passes its own test.
_WORDS = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "T" + "BD", "NotImplemented" + "Error"]
_PHRASES = ["lorem" + " ipsum", "coming" + " soon", "not yet" + " implemented"]
_LATER = re.compile(rf"\b({'|'.join(_WORDS)})\b|(?i:{'|'.join(_PHRASES)})")
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


def test_every_guarantee_names_its_test() -> None:
    """Each row of the table under "Guarantees" in the README names at least one test."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^##+ .*guarantee.*?$(.*?)(?=^## |\Z)", readme, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    rows = [line for line in (section[1] if section else "").splitlines() if line.startswith("|")][2:]
    assert [row for row in rows if not _TEST_NAME.search(row)] == []


@pytest.mark.parametrize(
    "name", ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", ".ci/run", "tools/setup"]
)
def test_repository_has(name: str) -> None:
    """What a new reader looks for is there, and not empty."""
    assert (ROOT / name).stat().st_size > 0
