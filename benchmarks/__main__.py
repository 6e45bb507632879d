"""Measure, write the raw results and print the table; a run of all writes docs/benchmarks.md too."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from inspect import getdoc
from pathlib import Path

from benchmarks.bare import HERE
from benchmarks.cgroup_home import cgroup_home
from benchmarks.machine import command_line, load_average, machine_facts
from benchmarks.measure import Figure
from benchmarks.report import document, table
from benchmarks.results import Results
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.verdict import summary

NOUNS = ("liveness", "tree", "spawn", "exit", "import", "recorder", "run")
DOCUMENT = HERE.parent / "docs" / "benchmarks.md"


def main() -> None:
    """Measure what was asked for."""
    arguments = _arguments()
    if arguments.render:
        render(arguments.render)
        return
    nouns = arguments.nouns or list(NOUNS)
    results = run(nouns, QUICK if arguments.quick else FULL)
    path = arguments.output or _default_path(nouns)
    results.write(path)
    if nouns == list(NOUNS) and not arguments.quick:
        render(path)
    print(table(results))
    print(f"\nraw results: {_shown(path)}")


def render(path: Path) -> None:
    """Write the document from the raw results at `path`: from what is kept, so that it can be made again."""
    DOCUMENT.write_text(document(Results.read(path), _shown(path)), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("nouns", nargs="*", choices=[*NOUNS, []], metavar="NOUN", help=f"of {', '.join(NOUNS)}; all by default")
    parser.add_argument("--output", type=Path, help="the raw results; benchmarks/results/all.json by default")
    parser.add_argument("--quick", action="store_true", help="show that everything runs; the figures mean nothing")
    parser.add_argument("--render", type=Path, metavar="RESULTS", help="measure nothing: write docs/benchmarks.md from these")
    return parser.parse_args()


def run(nouns: list[str], scale: Scale) -> Results:
    """One benchmark after the other, each in its own rounds."""
    facts = machine_facts() | {"command": command_line()}
    questions, benches = {}, {}
    with cgroup_home():
        for noun in nouns:
            begun = time.monotonic()
            module = import_module(f"benchmarks.bench_{noun}")
            measure: Callable[[Scale], list[Figure]] = module.measure
            questions[noun] = "\n\n".join((getdoc(module) or "", getdoc(measure) or ""))
            benches[noun] = {figure.name: figure for figure in measure(scale)}
            print(f"bench_{noun}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    facts["load_after"] = load_average()
    return Results(machine=facts, scale=asdict(scale), questions=questions, targets=summary(benches), benches=benches)


def _default_path(nouns: list[str]) -> Path:
    """One file for the run that the document is made from, kept in the repository; others are not."""
    return HERE / "results" / ("all.json" if nouns == list(NOUNS) else f"part-{'-'.join(nouns)}.json")


def _shown(path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(HERE.parent)) if resolved.is_relative_to(HERE.parent) else str(resolved)


if __name__ == "__main__":
    main()
