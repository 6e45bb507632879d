"""Where things stand in the repository, for the tests that guard it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What building and the tools leave in the tree; .gitignore lists the same.
_MADE = {"__pycache__", "bin", "_spurcore.c"}
_TEXT = {".py", ".pyi", ".c", ".h", ".md", ".toml", ".sh", ".symbols", ""}


def text_files(*folders: str) -> Iterator[Path]:
    """Every text file that people wrote below these folders of the repository."""
    for folder in folders:
        for parent, names, files in os.walk(ROOT / folder):
            names[:] = [name for name in names if name not in _MADE and not name.endswith(".egg-info") and name != "corpus"]
            yield from (Path(parent, name) for name in files if Path(name).suffix in _TEXT and name not in _MADE)


def documents() -> list[Path]:
    """The Markdown files: those at the top and those below docs/."""
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
