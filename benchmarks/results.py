"""The results of a run: what is written as JSON and what the report is made from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.machine import Facts
from benchmarks.measure import Figure

VERSION = 1
_DIGITS = 5
_PLAIN = ("machine", "scale", "questions", "targets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """`benches`: the figures of each benchmark by its noun. `questions`: what they ask. `targets`: what became of each."""

    machine: Facts
    scale: dict[str, Any]
    questions: dict[str, str]
    targets: list[dict[str, Any]]
    benches: dict[str, dict[str, Figure]]

    def write(self, path: Path) -> None:
        """As JSON; values are rounded to five digits."""
        path.parent.mkdir(parents=True, exist_ok=True)
        form: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        form["benches"] = {
            noun: [asdict(figure) | {"rounds": _rounded(figure)} for figure in figures.values()]
            for noun, figures in self.benches.items()
        }
        # A line for each figure: readable as a diff, and not a line for each number.
        path.write_text(_lines({"version": VERSION, **form}), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """What `write` wrote. Raises ValueError for another version."""
        form = json.loads(path.read_text(encoding="utf-8"))
        if form["version"] != VERSION:
            raise ValueError(f"{path}: version {form['version']}, not {VERSION}")
        benches = {noun: {figure["name"]: Figure(**figure) for figure in figures} for noun, figures in form["benches"].items()}
        return cls(**{name: form[name] for name in _PLAIN}, benches=benches)


def _rounded(figure: Figure) -> list[list[float]]:
    return [[float(f"{value:.{_DIGITS}g}") for value in samples] for samples in figure.rounds]


def _lines(form: dict[str, Any]) -> str:
    parts = [f'"{name}": {_rows(value)}' for name, value in form.items() if name != "benches"]
    benches = []
    for noun, figures in form["benches"].items():
        benches.append(f'"{noun}": {_rows(figures)}')
    parts.append('"benches": {\n ' + ",\n ".join(benches) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"


def _rows(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
