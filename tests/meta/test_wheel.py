"""What the wheel holds. SPURPROC_WHEEL names one that is built and installed; without it one is built here."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import spurproc
from tests.meta.repository import ROOT

PROGRAM = "spurproc/core/bin/spurproc-exec"
_PT_INTERP = 3
_ET_EXEC = 2


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist: a file that the sdist lacks is missed here."""
    if "SPURPROC_WHEEL" in os.environ:
        return Path(os.environ["SPURPROC_WHEEL"])
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_wheel_holds_the_compiled_parts_and_no_sources(wheel: Path) -> None:
    """The extension, the program, the marker of types; no C, no tests."""
    names = ZipFile(wheel).namelist()
    assert "spurproc/core/_spurcore.abi3.so" in names
    assert PROGRAM in names
    assert "spurproc/py.typed" in names
    assert "spurproc/core/_spurcore.pyi" in names
    assert [name for name in names if name.endswith((".c", ".h", ".o")) or name.split("/")[0] in {"csrc", "tests"}] == []


def test_wheel_holds_every_module(wheel: Path) -> None:
    """Every Python file of src/ is in it, and nothing that src/ has lost."""
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "spurproc").rglob("*.py")}
    assert {name for name in ZipFile(wheel).namelist() if name.endswith(".py")} == source


def test_wheel_holds_the_units(wheel: Path) -> None:
    """Those of systemd, outside of the package."""
    names = {name.partition(".data/data/")[2] for name in ZipFile(wheel).namelist()}
    units = {f"share/spurproc/systemd/{path.name}" for path in (ROOT / "packaging" / "systemd").iterdir()}
    assert units
    assert units <= names


def test_wheel_is_for_every_python(wheel: Path) -> None:
    """One wheel an architecture: the stable ABI from CPython 3.11 on."""
    assert "-cp311-abi3-" in wheel.name


def test_program_is_static_and_executable(wheel: Path) -> None:
    """The program runs in any root file system: no interpreter, no library, and the execute bit is set."""
    with ZipFile(wheel) as archive:
        assert archive.getinfo(PROGRAM).external_attr >> 16 & stat.S_IXUSR
        image = archive.read(PROGRAM)
    kind = struct.unpack_from("<H", image, 16)[0]
    (offset,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    segments = {struct.unpack_from("<I", image, offset + index * size)[0] for index in range(count)}
    assert kind == _ET_EXEC
    assert _PT_INTERP not in segments


def test_installed_package_is_the_one_under_test() -> None:
    """Where a wheel was installed for this run, it and not the source tree is what was imported."""
    inside_source = Path(str(spurproc.__file__)).is_relative_to(ROOT / "src")
    assert inside_source == ("SPURPROC_WHEEL" not in os.environ)
