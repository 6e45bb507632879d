"""The C parts of the copy, built unit by unit: a fault costs the unit that it is in, and what is linked from it.

The commands are those of setup.py itself: a first build is watched, and its lines are said again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Build", "DoesNotBuild"]

_BUILD = ("setup.py", "build_ext", "--inplace", "--force")
_COMPILER = "musl-gcc"
# Says what it was asked, and is the compiler.
_WATCHED = '#!/bin/sh\necho "{name} $*"\nexec {real} "$@"\n'


class DoesNotBuild(Exception):
    """The fault is none that a compiler lets pass: it says nothing of the tests."""


@dataclass(slots=True)
class _Part:
    """A file that is linked: from which command, and by which command each of its units is compiled."""

    link: list[str]
    target: Path
    units: dict[str, tuple[list[str], Path]] = field(default_factory=dict)


class Build:
    """The extension and the static program of the tree at `root`, built."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parts = self._watched()
        kept = [*(part.target for part in self._parts), *(path for part in self._parts for _, path in part.units.values())]
        self._good = {path: path.read_bytes() for path in kept}

    def _watched(self) -> list[_Part]:
        folder = self._root / "build" / "watched"
        folder.mkdir(parents=True)
        (folder / _COMPILER).write_text(_WATCHED.format(name=_COMPILER, real=shutil.which(_COMPILER)), encoding="ascii")
        (folder / _COMPILER).chmod(0o755)
        said = self._run([sys.executable, *_BUILD], path=f"{folder}:{os.environ['PATH']}")
        lines = [shlex.split(line) for line in said.splitlines() if " -o " in line]
        program = next(line for line in lines if line[0] == _COMPILER)
        return [self._extension([line for line in lines if line is not program]), self._program(program)]

    def _extension(self, lines: list[list[str]]) -> _Part:
        """Linked into build/ and then copied; here straight to where it is copied to."""
        target = next((self._root / "src").glob("spurproc/core/_spurcore*.so"))
        made = _output(lines[-1])
        part = _Part(link=[str(target) if word == made else word for word in lines[-1]], target=target)
        for line in lines[:-1]:
            part.units[line[line.index("-c") + 1]] = (line, self._root / _output(line))
        return part

    def _program(self, line: list[str]) -> _Part:
        """Made by one command; here each unit has its own, and the link takes what they make."""
        folder = self._root / "build" / "program"
        folder.mkdir()
        sources = [word for word in line if word.endswith(".c")]
        objects = {source: str(folder / Path(source).with_suffix(".o").name) for source in sources}
        part = _Part(link=[objects.get(word, word) for word in line], target=Path(_output(line)))
        rest = [word for word in line[: line.index("-o")] if word not in objects]
        for source, made in objects.items():
            unit = ([*rest, "-c", source, "-o", made], Path(made))
            part.units[str(Path(source).relative_to(self._root))] = unit
            self._run(unit[0])
        return part

    def again(self, file: str) -> None:
        """Build what `file` is part of. Raises DoesNotBuild."""
        for part in self._parts:
            touched = part.units if file.endswith(".h") else {file} & part.units.keys()
            for name in touched:
                self._run(part.units[name][0])
            if touched:
                part.target.unlink()  # never written over: the kernel may still run it
                self._run(part.link)

    def restore(self) -> None:
        """As it was without a fault."""
        for path, content in self._good.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            path.chmod(0o755)

    def _run(self, command: list[str], *, path: str | None = None) -> str:
        environment = os.environ | ({} if path is None else {"PATH": path})
        done = subprocess.run(
            ["nice", "-n", "10", *command], cwd=self._root, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise DoesNotBuild(done.stdout + done.stderr)
        return done.stdout


def _output(command: list[str]) -> str:
    return command[command.index("-o") + 1]
