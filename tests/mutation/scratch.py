"""A copy of the tree in which a fault may be put: the checkout itself is never touched."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.mutation.build import Build
from tests.mutation.catalogue import ROOT, Mutant

__all__ = ["Scratch"]

_PROGRAMS = {
    "spurd": "spurproc.agent.__main__",
    "spurproc-inspect": "spurproc.inspect.__main__",
    "spurstepd": "spurproc.stepd.__main__",
}
"""Each, and what it is started by."""


class Scratch:
    """The copy. `close()` it, or use it as a context manager.

    It has a Python of its own, which finds the copy's package before the installed one, in every process that a test starts.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="spurproc-mutants-"))
        self.root.chmod(0o755)  # jobs of other users run programs that are built in it
        self._ticks = itertools.count(1)
        _copy(self.root)
        self.python = _make_python(self.root)
        self._build = Build(self.root)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """The copy has the fault meanwhile. Raises DoesNotBuild."""
        path = self.root / mutant.file
        text = path.read_text(encoding="utf-8")
        self._write(path, mutant.applied(text))
        try:
            if mutant.compiled:
                self._build.again(mutant.file)
            yield
        finally:
            self._write(path, text)
            if mutant.compiled:
                self._build.restore()

    def _write(self, path: Path, text: str) -> None:
        """With a time that no other version of the file ever had: compiled Python is kept by time and size."""
        path.write_text(text, encoding="utf-8")
        seconds = next(self._ticks)
        os.utime(path, (seconds, seconds))

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _copy(target: Path) -> None:
    """What git knows or would take in: the work as it stands, without what was built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if os.path.lexists(ROOT / name):  # else removed, and not committed yet
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)  # trees of sysfs have links to folders


def _make_python(target: Path) -> Path:
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    subprocess.run([base, "-m", "venv", "--without-pip", target / ".venv"], check=True)
    python = target / ".venv" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True
    )
    paths = (target / "src", Path(sysconfig.get_path("purelib")))
    Path(site.stdout.strip(), "scratch.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    for name, module in _PROGRAMS.items():  # looked for beside the running Python, then on PATH: those would be unharmed
        program = python.with_name(name)
        program.write_text(f"#!{python}\nfrom {module} import run\nraise SystemExit(run())\n", encoding="utf-8")
        program.chmod(0o755)
    return python
