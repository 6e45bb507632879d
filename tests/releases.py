"""Releases of ours for tests: the one that is tested, installed in a folder of its own, and one that comes after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import spurproc
from spurproc.proto.codec import PROTOCOL_VERSION
from spurproc.version import VERSION
from tests.meta.repository import ROOT
from tests.steps import WAIT_S

_NEXT = "99.0.0"
NEXT = (
    ("version.py", f'VERSION = "{VERSION}"', f'VERSION = "{_NEXT}"'),
    ("proto/codec.py", f"PROTOCOL_VERSION = {PROTOCOL_VERSION}\n", f"PROTOCOL_VERSION = {PROTOCOL_VERSION + 1}\n"),
    ("proto/launch_record.py", "    linger_s: float = 1.0\n", '    linger_s: float = 1.0\n    colour: str = "blue"\n'),
)
"""What the next release changes: its number, that of its records, and what they hold."""
NEXT_AGENT = (
    *NEXT,
    (
        "agent/store/schema.py",
        "scripts=(_ATTEMPTS, _FINISHED)",
        'scripts=(_ATTEMPTS, _FINISHED, "ALTER TABLE attempts ADD COLUMN colour TEXT")',
    ),
)
"""And what the database of its agent holds."""


class Site:
    """A folder of packages with one release of ours, and its programs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._program = path.parent / "spurstepd"
        self._program.write_text(
            f"#!{sys.executable}\nimport sys\nfrom spurproc.stepd.__main__ import run\nsys.exit(run())\n", encoding="utf-8"
        )
        self._program.chmod(0o755)

    def install(self, changes: tuple[tuple[str, str, str], ...] = ()) -> None:
        """Whatever release was there is deleted first."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(Path(spurproc.__file__).parent, self.path / "spurproc", ignore=shutil.ignore_patterns("__pycache__"))
        for name, old, new in changes:
            file = self.path / "spurproc" / name
            text = file.read_text(encoding="utf-8")
            assert text.count(old) == 1, name
            file.write_text(text.replace(old, new), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """In which programs are of what is installed."""
        return {"PYTHONPATH": f"{self.path}:{ROOT}", "SPURPROC_STEPD": str(self._program)}

    def run(self, program: str, *arguments: object) -> str:
        """Run it with what is installed."""
        command = [sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.run(
            command, env=os.environ | self.environment, stdout=subprocess.PIPE, check=True, text=True, timeout=WAIT_S
        ).stdout

    def end_all(self, steps: Path) -> None:
        """End the steps of this state folder, and the host of what is installed."""
        self.run("import sys, pathlib; from tests.steps import Steps; Steps(pathlib.Path(sys.argv[1])).end_all()", steps)
