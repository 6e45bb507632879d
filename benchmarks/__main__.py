"""Measure, write the raw results and print the table; what is run together is written as a document too."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields, replace
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

RUNS = {"all": ("liveness", "tree", "spawn", "exit", "import", "recorder", "run"), "steps": ("steps",), "agent": ("agent",)}
"""What is measured in one run, by the name of its results; of each a document is made."""
NOUNS = tuple(noun for nouns in RUNS.values() for noun in nouns)
DOCUMENTS = {
    "all": HERE.parent / "docs" / "benchmarks.md",
    "steps": HERE.parent / "docs" / "benchmarks-steps.md",
    "agent": HERE.parent / "docs" / "benchmarks-agent.md",
}


def main() -> None:
    """Measure what was asked for."""
    arguments = _arguments()
    if arguments.render:
        render(arguments.render)
        return
    if arguments.nouns:
        measure(arguments.nouns, arguments)
        return
    for nouns in RUNS.values():
        measure(list(nouns), arguments)


def measure(nouns: list[str], arguments: argparse.Namespace) -> None:
    """One run: its results, its document if there is one of it, its table."""
    results = run(nouns, replace(QUICK if arguments.quick else FULL, **dict(arguments.count)))
    path = arguments.output or _default_path(nouns, quick=arguments.quick)
    results.write(path)
    if _name_of(nouns) in DOCUMENTS and not arguments.quick:
        render(path)
    print(table(results))
    print(f"\nraw results: {_shown(path)}")


def render(path: Path) -> None:
    """Write the document from the raw results at `path`: from what is kept, so that it can be made again."""
    results = Results.read(path)
    DOCUMENTS[_name_of(results.benches)].write_text(document(results, _shown(path)), encoding="utf-8")


def _name_of(nouns: Iterable[str]) -> str:
    """Of a run of these."""
    found = (name for name, together in RUNS.items() if set(together) == set(nouns))
    return next(found, f"part-{'-'.join(nouns)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("nouns", nargs="*", choices=[*NOUNS, []], metavar="NOUN", help=f"of {', '.join(NOUNS)}; all by default")
    parser.add_argument("--output", type=Path, help="the raw results; benchmarks/results/<run>.json by default")
    parser.add_argument("--quick", action="store_true", help="show that everything runs; the figures mean nothing")
    parser.add_argument("--render", type=Path, metavar="RESULTS", help="measure nothing: write the document from these")
    parser.add_argument("--count", type=_count, action="append", default=[], metavar="NAME=N", help="another number of something")
    arguments = parser.parse_args()
    if arguments.output and not arguments.nouns:
        parser.error("--output: of which nouns?")
    return arguments


def _count(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if name not in {field.name for field in fields(Scale)}:
        raise argparse.ArgumentTypeError(f"{name!r}: not in benchmarks/scale.py")
    return name, int(value)


def run(nouns: list[str], scale: Scale) -> Results:
    """One benchmark after the other, each in its own rounds."""
    facts = machine_facts() | {"command": command_line()}
    questions, benches = {}, {}
    with cgroup_home():
        for noun in nouns:
            begun = time.monotonic()
            module = import_module(f"benchmarks.bench_{noun}")
            take: Callable[[Scale], list[Figure]] = module.measure
            questions[noun] = "\n\n".join((getdoc(module) or "", getdoc(take) or ""))
            benches[noun] = {figure.name: figure for figure in take(scale)}
            print(f"bench_{noun}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    facts["load_after"] = load_average()
    return Results(machine=facts, scale=asdict(scale), questions=questions, targets=summary(benches), benches=benches)


def _default_path(nouns: list[str], *, quick: bool) -> Path:
    """One file for each run that a document is made from, kept in the repository; others are not."""
    return HERE / "results" / f"{'part-quick' if quick else _name_of(nouns)}.json"


def _shown(path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(HERE.parent)) if resolved.is_relative_to(HERE.parent) else str(resolved)


if __name__ == "__main__":
    main()
