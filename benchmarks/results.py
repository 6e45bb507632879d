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


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """`benches`: the figures of each benchmark by its noun. `questions`: what each of them asks."""

    machine: Facts
    scale: dict[str, Any]
    questions: dict[str, str]
    benches: dict[str, dict[str, Figure]]

    def write(self, path: Path) -> None:
        """As JSON; values are rounded to five digits."""
        path.parent.mkdir(parents=True, exist_ok=True)
        form: dict[str, Any] = {"version": VERSION, "machine": self.machine, "scale": self.scale, "questions": self.questions}
        form["benches"] = {
            noun: [asdict(figure) | {"rounds": _rounded(figure)} for figure in figures.values()]
            for noun, figures in self.benches.items()
        }
        # A line for each figure: readable as a diff, and not a line for each number.
        path.write_text(_lines(form), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """What `write` wrote. Raises ValueError for another version."""
        form = json.loads(path.read_text(encoding="utf-8"))
        if form["version"] != VERSION:
            raise ValueError(f"{path}: version {form['version']}, not {VERSION}")
        benches = {noun: {figure["name"]: Figure(**figure) for figure in figures} for noun, figures in form["benches"].items()}
        return cls(machine=form["machine"], scale=form["scale"], questions=form["questions"], benches=benches)


def _rounded(figure: Figure) -> list[list[float]]:
    return [[float(f"{value:.{_DIGITS}g}") for value in samples] for samples in figure.rounds]


def _lines(form: dict[str, Any]) -> str:
    parts = [f'"{name}": {json.dumps(value)}' for name, value in form.items() if name != "benches"]
    benches = []
    for noun, figures in form["benches"].items():
        rows = ",\n  ".join(json.dumps(figure) for figure in figures)
        benches.append(f'"{noun}": [\n  {rows}\n ]')
    parts.append('"benches": {\n ' + ",\n ".join(benches) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"
