"""What has to be shown: `catalogue.toml`, one table for each configuration that is clean and each fault that is found.

    [clean.base]                            [fault.BUG_CONSUME]
    budgets = { KL = 1, KS = 1 }            says = "S reads the failure channel instead of peeking at it"
    states = 1_000_000                      budgets = { KS = 1 }
    quick = true                            breaks = "invalid end state"

`model` is the file (step by default), `options` are flags of it, `budgets` numbers that the file knows; a budget that a
configuration does not name is the file's own, one that a fault does not name is 0. `states`: a search that sees fewer has lost
something. `breaks`: a part of what Spin has to say of the fault. `cycles`: no run goes on for ever. `quick`: `make check` takes
it, as it does every fault. `collapse`: less memory for more time. `memory_gib`: the search is given up there, and has failed.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "Search", "faults_of", "flags_of", "load"]

FOLDER = Path(__file__).parent
_BUDGETS = re.compile(r"^#ifndef (K[A-Z])\n#define \1 \d", re.MULTILINE)
_FAULT = re.compile(r"\bBUG_[A-Z0-9_]+\b")
_MEMORY_GIB = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search: which flags, and what it has to come to. `breaks` is empty where the model has to be clean."""

    name: str
    model: str = "step"
    options: tuple[str, ...] = ()
    budgets: dict[str, int] = field(default_factory=dict)
    states: int = 1
    breaks: str = ""
    says: str = ""
    cycles: bool = False
    quick: bool = False
    collapse: bool = False
    folder: Path = FOLDER
    memory_gib: int = _MEMORY_GIB

    @property
    def source(self) -> Path:
        """The model's file."""
        return self.folder / f"{self.model}.pml"

    @property
    def flags(self) -> list[str]:
        """For Spin's preprocessor."""
        fault = [self.name] if self.breaks else []
        unnamed = dict.fromkeys(_BUDGETS.findall(self.source.read_text(encoding="utf-8")), 0) if self.breaks else {}
        return [f"-D{name}" for name in (*fault, *self.options)] + [f"-D{k}={v}" for k, v in (unnamed | self.budgets).items()]


def load(text: str | None = None) -> list[Search]:
    """All of the catalogue, in its order. Raises ValueError or TypeError for a table that is not as it should be."""
    tables = tomllib.loads((FOLDER / "catalogue.toml").read_text(encoding="utf-8") if text is None else text)
    clean = [_search(name, table) for name, table in tables.get("clean", {}).items()]
    faults = [_search(name, {"quick": True, **table}) for name, table in tables.get("fault", {}).items()]
    if wrong := [each.name for each in clean if each.breaks or each.states == 1]:
        raise ValueError(f"a clean configuration breaks nothing and says how many states it has: {wrong}")
    if wrong := [each.name for each in faults if not (each.breaks and each.says)]:
        raise ValueError(f"a fault says what it is and what it breaks: {wrong}")
    return [*clean, *faults]


def _search(name: str, table: dict[str, Any]) -> Search:
    return Search(name=name, **{**table, "options": tuple(table.get("options", ()))})


def faults_of(model: str) -> set[str]:
    """The faults that a model's code knows; its comments do not count."""
    code = re.sub(r"/\*.*?\*/", "", (FOLDER / f"{model}.pml").read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(_FAULT.findall(code))


def flags_of(model: str) -> set[str]:
    """Every name that decides what the preprocessor keeps."""
    lines = re.findall(r"^#(?:if|ifdef|ifndef|elif)\b.*$", (FOLDER / f"{model}.pml").read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", " ".join(lines)))
