"""docs/benchmarks.md, made from the results of a run and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.measure import Figure
from benchmarks.parts import is_part, part
from benchmarks.results import Results
from benchmarks.target import Bound, Relation, Target
from benchmarks.targets import TARGETS
from benchmarks.verdict import Verdict, judge, outcome

_STEPS = {"ns": ("us", 1000), "us": ("ms", 1000), "ms": ("s", 1000), "KiB": ("MiB", 1024)}
_PARTED = {call for target in TARGETS for call in target.parts}
_TABLE = "| what | measured | against its bounds | |\n|---|---|---|---|"


def quantity(value: float, unit: str) -> str:
    """`value` in three digits and the unit that suits it: `1234.5, "us"` is `1.23 ms`."""
    while unit in _STEPS and abs(value) >= _STEPS[unit][1]:
        unit, divisor = _STEPS[unit][0], _STEPS[unit][1]
        value /= divisor
    number = f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def _against(value: float, limit: float) -> str:
    """`value` with as many digits as tell it from its limit: a miss by a hair must not read like the limit itself."""
    text = f"{value:.3g}"
    for digits in range(4, 9):
        if float(text) != limit or value == limit:
            break
        text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if abs(value) >= 100 and float(text) == int(float(text)) else text


def bound_text(verdict: Verdict) -> str:
    """One bound with what was found of it."""
    bound = verdict.bound
    if verdict.missing:
        return f"{verdict.missing}: no verdict on {_limit_text(bound, '')}"
    found = _against(verdict.value, bound.limit)
    texts = {
        Relation.TIMES: f"{found}x {bound.than}",
        Relation.FASTER: f"{found}x faster than {bound.than}",
        Relation.ADDED: f"{quantity(verdict.value, verdict.unit)} more than {bound.than}",
    } | dict.fromkeys(
        (Relation.VALUE, Relation.LEAST), f"{found} {verdict.unit}".rstrip() + (f" {bound.than}" if bound.than else "")
    )
    mark = "" if verdict.holds else ", **missed**"
    return f"{texts[bound.relation]} ({_limit_text(bound, verdict.unit)}){mark}"


def _limit_text(bound: Bound, unit: str) -> str:
    word = "at least" if bound.relation in (Relation.FASTER, Relation.LEAST) else "at most"
    unit = "x" if bound.relation in (Relation.TIMES, Relation.FASTER) else f" {unit}"
    return f"{word} {bound.limit:g}{unit}".rstrip()


def _measured(target: Target, figures: Mapping[str, Figure]) -> str:
    names = dict.fromkeys(name for bound in target.bounds for name in (bound.ours, bound.theirs) if name)
    return "<br>".join(_figure_text(name, figures.get(name)) for name in (*names, *target.also))


def _figure_text(name: str, figure: Figure | None) -> str:
    if figure is None or figure.missing:
        return f"{name}: {'not measured' if figure is None else 'not here'}"
    p99 = f" (p99 {quantity(figure.p99, figure.unit)})" if len(figure.samples) > 1 else ""
    return f"{name}: {quantity(figure.median, figure.unit)}{p99}"


def target_line(target: Target, figures: Mapping[str, Figure]) -> str:
    """The line of one target."""
    verdicts = [judge(bound, figures) for bound in target.bounds]
    bounds = "<br>".join(map(bound_text, verdicts))
    return f"| {target.what} | {_measured(target, figures)} | {bounds} | {outcome(target, verdicts)} |"


def table(results: Results) -> str:
    """A line for each target of the benchmarks that were run."""
    lines = [target_line(target, results.benches[target.bench]) for target in TARGETS if target.bench in results.benches]
    return "\n".join([_TABLE, *lines])


def _misses(results: Results) -> Iterator[str]:
    for target in TARGETS:
        figures = results.benches.get(target.bench, {})
        verdicts = [judge(bound, figures) for bound in target.bounds]
        if outcome(target, verdicts) == "MISS":
            yield f"### {target.what}\n\n" + "\n".join(f"- {bound_text(one)}" for one in verdicts if not one.holds)
            yield from _explanation(target, figures)


def _explanation(target: Target, figures: Mapping[str, Figure]) -> Iterator[str]:
    floor = [figures[name] for name in target.floor if name in figures]
    if floor:
        yield f"The floor, which is without anything of ours:\n\n{figure_table(floor)}"
    for call in target.parts:
        parts = [
            replace(figure, name=name.removeprefix(part(call, ""))) for name, figure in figures.items() if is_part(call, name)
        ]
        if parts:
            yield f"Parts of `{call}`, some within others:\n\n{figure_table(parts)}"


def figure_table(figures: list[Figure]) -> str:
    """Medians and the rest of each."""
    lines = ["| figure | median | lower quartile | p99 | values |", "|---|---|---|---|---|"]
    for figure in figures:
        if figure.missing:
            lines.append(f"| {figure.name} | not here: {figure.missing} | | | |")
            continue
        ordered = sorted(figure.samples)
        cells = [quantity(value, figure.unit) for value in (figure.median, ordered[len(ordered) // 4], figure.p99)]
        lines.append(f"| {figure.name} | {' | '.join(cells)} | {len(ordered)} |")
    return "\n".join(lines)


def _head(results: Results, source: str) -> str:
    facts = results.machine
    state = " and uncommitted changes" if facts["dirty"] else ""
    title = "Benchmarks" if len(results.benches) > 1 else f"Benchmarks: {next(iter(results.benches))}"
    return f"""# {title}

Made by `make bench` from the raw results in `{source}`; do not edit. Figures of one machine at one time: run it on yours.

| | |
|---|---|
| when | {facts["date"]} |
| commit | {facts["commit"] or "unknown"}{state} |
| machine | {facts["cpu"]}, {facts["cpus"]} CPUs, {facts["memory"]}, huge pages: {facts["huge_pages"] or "unknown"} |
| kernel | Linux {facts["kernel"]} |
| Python | {facts["python"]}, cffi {facts["cffi"]}; C by {facts["compiler"]} |
| peers | psutil {facts["psutil"] or "not here"}, pidfd {facts["pidfd"] or "not here"} |
| load average | {facts["load_before"]} before, {facts["load_after"]} after |
| counts | {", ".join(f"`{name}` {value}" for name, value in results.scale.items())} |

In each round every contender runs once, in turn, in the same process tree. A ratio is the median of the rounds' own ratios, so
it can differ a little from that of the medians. The p99 of fewer than a hundred values is the largest. "Bare C" makes the same
system calls and nothing else, from `benchmarks/*.c`, in the same process."""


def document(results: Results, source: str) -> str:
    """All of docs/benchmarks.md. `source`: where the raw results stand."""
    parts = [_head(results, source), "## Targets", table(results)]
    misses = list(_misses(results))
    if misses:
        parts += ["## Misses, with their floors and parts", *misses]
    for noun, figures in results.benches.items():
        whole = [figure for figure in figures.values() if not any(is_part(call, figure.name) for call in _PARTED)]
        parts += [f"## bench_{noun}", results.questions[noun], figure_table(whole)]
    return "\n\n".join(parts) + "\n"
