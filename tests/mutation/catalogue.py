"""The hand-made faults: `catalogue/*.toml`, one table each, named by what is taken away.

    [pid-1-passes-the-guard]
    file = "csrc/pidfd.c"
    find = "return pid <= 1 ||"
    put = "return pid < 1 ||"
    tests = ["unit/test_numbers.py::test_guard_refuses"]

`find` stands in the file exactly once; `tests`, below tests/, are those that ought to notice, the quickest first. `equivalent` is
the reason why nobody can notice. `hangs` says that the test stands still for ever, which is how the fault is noticed: it is given
less time.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Mutant", "load", "misfit"]

ROOT = Path(__file__).resolve().parent.parent.parent
_FOLDER = Path(__file__).parent / "catalogue"
_KEYS = {"file", "find", "put", "tests"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault: `find` becomes `put` in `file`, and one of `tests` must fail. All paths are relative to the repository."""

    name: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]
    equivalent: str = ""
    hangs: bool = False

    @property
    def compiled(self) -> bool:
        """Whether it has to be built."""
        return self.file.startswith("csrc/")

    @property
    def expected(self) -> str:
        """What a trial has to say of it; BROKEN, of which nothing is known, is never right."""
        return "SURVIVED" if self.equivalent else "killed"

    def applied(self, text: str) -> str:
        """`text` with the fault."""
        return text.replace(self.find, self.put, 1)


def load() -> list[Mutant]:
    """All of the catalogue, in its order. Raises ValueError for a table that is not as it should be."""
    found: list[Mutant] = []
    for path in sorted(_FOLDER.glob("*.toml")):
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found.append(_mutant(f"{path.stem}/{name}", table))
    return found


def _mutant(name: str, table: dict[str, Any]) -> Mutant:
    if table.keys() - {"equivalent", "hangs"} != _KEYS:
        raise ValueError(f"{name}: wants {', '.join(sorted(_KEYS))}, and may have equivalent or hangs")
    if table["find"] == table["put"] or not table["tests"]:
        raise ValueError(f"{name}: changes nothing, or names no test")
    tests = tuple(f"tests/{test}" for test in table.pop("tests"))
    return Mutant(name=name, tests=tests, **table)


def misfit(mutant: Mutant, root: Path = ROOT) -> str:
    """Why the fault cannot be put into the tree at `root` as it is; empty where it can."""
    path = root / mutant.file
    if not path.exists():
        return f"{mutant.name}: there is no {mutant.file}"
    count = path.read_text(encoding="utf-8").count(mutant.find)
    if count != 1:
        return f"{mutant.name}: its text stands {count} times in {mutant.file}"
    for test in mutant.tests:
        file, _, function = test.partition("::")
        if not (root / file).exists() or f"def {function.partition('[')[0]}" not in (root / file).read_text(encoding="utf-8"):
            return f"{mutant.name}: there is no test {test}"
    return ""
