"""Two runs side by side, on planted tests that can only pass that way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.side_by_side import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
FIRST = """
def test_meets():
    with open("meeting") as meeting:
        assert meeting.read() == "here"
def test_passes():
    pass
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with a first file of tests, which needs somebody who runs the last at the same time."""
    os.mkfifo(tmp_path / "meeting")
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\n")
    (tmp_path / "test_first.py").write_text(FIRST)
    return tmp_path


def _run(folder: Path, last: str) -> str:
    (folder / "test_last.py").write_text(
        f"import os\ndef test_meets():\n    with open('meeting', 'w') as it:\n        it.write('here')\n{last}"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPURPROC_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=folder,
        env=env | {"PYTHONPATH": str(ROOT), VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # it hangs
    )
    return f"{done.stdout}{done.stderr}exit code {done.returncode}"


def test_each_takes_files_and_one_tells_of_all(planted: Path) -> None:
    """Every test once, the failures of the other run with what they say."""
    said = _run(planted, "def test_fails():\n    assert 'this' == 'that'\n")
    assert "1 failed, 3 passed" in said, said
    assert "FAILED test_last.py::test_fails" in said
    assert "assert 'this' == 'that'" in said
    assert said.endswith("exit code 1")


def test_what_nobody_ran_is_a_failure(planted: Path) -> None:
    """The other run dies in the middle of a file that it has taken."""
    said = _run(planted, "def test_dies():\n    os._exit(0)\n")
    assert "1 failed, 3 passed" in said, said
    assert "1 tests were run by nobody" in said
    assert "FAILED test_last.py::test_dies" in said
    assert said.endswith("exit code 1")
