"""The public face: what `spurproc` exports, what importing it does, and that the documentation names all of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from types import ModuleType

import pytest

import spurproc
from spurproc.version import VERSION
from tests.meta.repository import ROOT

EXPORTS: list[str] = list(getattr(spurproc, "__all__", ()))
# Runs in a bare interpreter: what importing spurproc adds to it.
_IMPORT = """
import os, signal, sys
before = set(sys.modules)
handlers = [signal.getsignal(number) for number in signal.valid_signals()]
import spurproc
for name in spurproc.__all__:
    getattr(spurproc, name)
assert handlers == [signal.getsignal(number) for number in signal.valid_signals()], "a signal handler was set"
assert len(os.listdir("/proc/self/task")) == 1, "a thread was started"
print(*sorted(set(sys.modules) - before))
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules that spurproc and all its names bring in; also asserts that no thread starts and no handler is set."""
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_exports_exist_and_are_sorted() -> None:
    """Every name in __all__ can be had, once, and they stand in order."""
    assert sorted(EXPORTS) == EXPORTS
    assert len(set(EXPORTS)) == len(EXPORTS)
    assert [name for name in EXPORTS if not hasattr(spurproc, name)] == []


def test_nothing_public_is_left_out_of_all() -> None:
    """A name without an underscore is public, so it is in __all__."""
    public = {name for name, value in vars(spurproc).items() if not name.startswith("_") and not isinstance(value, ModuleType)}
    assert public - {"annotations", "TYPE_CHECKING"} <= set(EXPORTS)


def test_reference_shows_every_export() -> None:
    """A page of docs/reference is made from the docstring of each public name."""
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    shown = re.findall(r"^\.\. auto(?:class|function|exception):: spurproc\.(\w+)$", pages, re.MULTILINE)
    assert sorted(shown) == EXPORTS


@pytest.mark.parametrize("module", ["asyncio", "subprocess", "threading", "logging", "multiprocessing", "psutil"])
def test_import_is_light(imported: set[str], module: str) -> None:
    """Importing spurproc has no side effect and does not pull in what a supervisor pays for in memory."""
    assert module not in imported


def test_version_is_one() -> None:
    """The installed version, the module that has it and the changelog say the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"]
    assert version("spurproc") == VERSION
    assert getattr(spurproc, "__version__", VERSION) == VERSION
    headings = [line[3:].split()[0] for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == ("Unreleased" if "dev" in VERSION else VERSION)
