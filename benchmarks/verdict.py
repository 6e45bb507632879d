"""Does a bound hold? The value compared is the median of the rounds' own, in full precision."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Figure
from benchmarks.target import Bound, Relation, Target
from benchmarks.targets import TARGETS

_AT_LEAST = (Relation.FASTER, Relation.LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found of one bound: a `value`, or why there is `missing` one."""

    bound: Bound
    value: float = 0.0
    unit: str = ""
    missing: str = ""

    @property
    def holds(self) -> bool:
        """At the bound itself it holds. What was not measured does not."""
        if self.missing:
            return False
        return self.value >= self.bound.limit if self.bound.relation in _AT_LEAST else self.value <= self.bound.limit


def judge(bound: Bound, figures: Mapping[str, Figure]) -> Verdict:
    """Compare round with round: both of a round had the same noise."""
    names = [name for name in (bound.ours, bound.theirs) if name]
    for name in names:
        if name not in figures:
            return Verdict(bound=bound, missing=f"{name}: not measured")
        if figures[name].missing:
            return Verdict(bound=bound, missing=f"{name}: not here ({figures[name].missing})")
    ours = figures[bound.ours]
    if bound.relation in (Relation.VALUE, Relation.LEAST):
        return Verdict(bound=bound, value=ours.median, unit=ours.unit)
    theirs = figures[bound.theirs]
    if ours.unit != theirs.unit:
        raise ValueError(f"cannot compare {ours.name} in {ours.unit} with {theirs.name} in {theirs.unit}")
    pairs = list(zip(ours.per_round, theirs.per_round, strict=True))
    if bound.relation is Relation.ADDED:
        return Verdict(bound=bound, value=statistics.median(one - other for one, other in pairs), unit=ours.unit)
    if bound.relation is Relation.FASTER:
        pairs = [(other, one) for one, other in pairs]
    return Verdict(bound=bound, value=statistics.median(one / other for one, other in pairs), unit="x")


def summary(benches: Mapping[str, Mapping[str, Figure]]) -> list[dict[str, Any]]:
    """Every target of the benchmarks that were run, as plain values for the raw results."""
    lines = []
    for target in TARGETS:
        if target.bench in benches:
            verdicts = [judge(bound, benches[target.bench]) for bound in target.bounds]
            bounds = [_plain(verdict) for verdict in verdicts]
            lines.append({"what": target.what, "bench": target.bench, "outcome": outcome(target, verdicts), "bounds": bounds})
    return lines


def _plain(verdict: Verdict) -> dict[str, Any]:
    bound = verdict.bound
    form: dict[str, Any] = {"relation": bound.relation.value, "ours": bound.ours, "theirs": bound.theirs, "limit": bound.limit}
    found = {"missing": verdict.missing} if verdict.missing else {"value": float(f"{verdict.value:.5g}"), "unit": verdict.unit}
    return form | found | {"holds": verdict.holds}


def outcome(target: Target, verdicts: list[Verdict]) -> str:
    """OK, MISS, or NOT MEASURED: the last only where no bound is missed and one could not be looked at."""
    if all(verdict.holds for verdict in verdicts):
        return "OK"
    measured = [verdict for verdict in verdicts if not verdict.missing]
    return "MISS" if any(not verdict.holds for verdict in measured) else "NOT MEASURED"
