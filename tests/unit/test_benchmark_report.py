"""What the benchmarks make of their figures: verdicts at the bound, the right way round, and none on a peer that is not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure import Contender, Figure, absent, interleave
from benchmarks.report import bound_text, document, figure_table, quantity, target_line
from benchmarks.results import Results
from benchmarks.target import Bound, Relation, Target
from benchmarks.verdict import Verdict, judge, outcome


def figure(name: str, *per_round: float, unit: str = "us") -> Figure:
    """One value a round."""
    return Figure(name=name, unit=unit, rounds=[[value] for value in per_round])


def bound(relation: Relation, limit: float) -> Bound:
    """Ours against theirs."""
    theirs = "" if relation is Relation.VALUE else "theirs"
    return Bound(relation=relation, ours="ours", theirs=theirs, limit=limit, than="the peer")


def judged(relation: Relation, limit: float, ours: float, theirs: float) -> Verdict:
    return judge(bound(relation, limit), {"ours": figure("ours", ours), "theirs": figure("theirs", theirs)})


@pytest.mark.parametrize(
    ("relation", "limit", "ours", "theirs", "holds"),
    [
        (Relation.TIMES, 2, 200, 100, True),
        (Relation.TIMES, 2, 200.001, 100, False),
        (Relation.TIMES, 2, 50, 100, True),
        (Relation.FASTER, 20, 5, 100, True),
        (Relation.FASTER, 20, 5.001, 100, False),
        (Relation.FASTER, 20, 100, 5, False),
        (Relation.ADDED, 30, 130, 100, True),
        (Relation.ADDED, 30, 130.001, 100, False),
        (Relation.VALUE, 64, 64, 0, True),
        (Relation.VALUE, 64, 64.001, 0, False),
    ],
)
def test_verdict_at_the_bound(relation: Relation, limit: float, ours: float, theirs: float, *, holds: bool) -> None:
    """The bound itself holds; a hair beyond it does not."""
    assert judged(relation, limit, ours, theirs).holds is holds


def test_ratio_is_that_of_the_rounds() -> None:
    """A slow round is slow for both; medians of different rounds must not meet."""
    ours, theirs = figure("ours", 10, 200, 30), figure("theirs", 5, 100, 40)
    assert judge(bound(Relation.TIMES, 2), {"ours": ours, "theirs": theirs}).value == 2
    assert ours.median / theirs.median == 0.75


def test_rounds_of_different_number_are_not_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        judge(bound(Relation.TIMES, 2), {"ours": figure("ours", 1, 2), "theirs": figure("theirs", 1)})


def test_units_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="in us with theirs in ms"):
        judge(bound(Relation.TIMES, 2), {"ours": figure("ours", 1), "theirs": figure("theirs", 1, unit="ms")})


def test_missing_peer_is_shown_and_decides_nothing() -> None:
    """Neither OK nor MISS by a figure that there is not; a bound that was missed is a miss all the same."""
    figures = {"ours": figure("ours", 70), "theirs": absent("theirs", "us", "not installed")}
    target = Target(what="the thing", bench="any", bounds=(bound(Relation.FASTER, 20),))
    line = target_line(target, figures)
    assert "theirs: not here<br>" in line.replace(" |", "<br>")
    assert "not here (not installed): no verdict on at least 20x" in line
    assert line.endswith("| NOT MEASURED |")
    missed = Target(what="the thing", bench="any", bounds=(bound(Relation.FASTER, 20), bound(Relation.VALUE, 64)))
    assert target_line(missed, figures).endswith("| MISS |")


def test_figure_that_nobody_measured_is_no_verdict() -> None:
    """A name that is spelled wrong in a target does not read as OK."""
    verdict = judge(bound(Relation.VALUE, 1), {})
    assert not verdict.holds
    assert outcome(Target(what="", bench="", bounds=(verdict.bound,)), [verdict]) == "NOT MEASURED"


def test_line_has_values_ratio_bound_and_verdict() -> None:
    figures = {"ours": figure("ours", 300, 300), "theirs": figure("theirs", 100, 100)}
    target = Target(what="the thing", bench="any", bounds=(bound(Relation.TIMES, 2), bound(Relation.VALUE, 300)))
    assert target_line(target, figures) == (
        "| the thing | ours: 300 us (p99 300 us)<br>theirs: 100 us (p99 100 us) "
        "| 3x the peer (at most 2x), **missed**<br>300 us the peer (at most 300 us) | MISS |"
    )


@pytest.mark.parametrize(("value", "shown"), [(2.004, "2.004x"), (2.00001, "2.00001x"), (2, "2x"), (1.8312, "1.83x")])
def test_miss_by_a_hair_does_not_read_like_the_bound(value: float, shown: str) -> None:
    assert bound_text(Verdict(bound=bound(Relation.TIMES, 2), value=value, unit="x")).startswith(f"{shown} the peer")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(312.4, "ns", "312 ns"), (1234.5, "ns", "1.23 us"), (402413, "us", "402 ms"), (0, "", "0"), (14, "KiB", "14 KiB")],
)
def test_quantity(value: float, unit: str, shown: str) -> None:
    assert quantity(value, unit) == shown


def test_everybody_takes_a_turn_in_every_round() -> None:
    """The first of a round changes; the rounds that warm up are not kept."""
    turns: list[str] = []

    def contender(name: str) -> Contender:
        def take() -> list[float]:
            turns.append(name)
            return [len(turns)]

        return Contender(name=name, unit="us", take=take)

    figures = interleave([contender("a"), contender("b")], rounds=2, warm_up=1)
    assert turns == ["b", "a", "a", "b", "b", "a"]
    assert [one.samples for one in figures] == [[3, 6], [4, 5]]


def test_p99_of_few_values_is_the_largest() -> None:
    assert figure("few", 1, 5, 3).p99 == 5
    assert figure("many", *range(1000)).p99 == 990


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """What the report is made from is what stands on disk."""
    facts = dict.fromkeys(("date", "commit", "cpu", "cpus", "memory", "huge_pages", "kernel", "python", "cffi", "compiler"), "x")
    results = Results(
        machine={**facts, "dirty": True, "psutil": None, "pidfd": None, "load_before": 0.1, "load_after": 0.2},
        scale={"rounds": 2},
        questions={"tree": "what?"},
        targets=[{"what": "the thing"}],
        benches={"tree": {"a": Figure(name="a", unit="us", rounds=[[1.5, 2], [3]]), "b": absent("b", "us", "why")}},
    )
    results.write(tmp_path / "folder" / "results.json")
    again = Results.read(tmp_path / "folder" / "results.json")
    assert again == results
    assert "x and uncommitted changes" in document(again, "results.json")
    assert figure_table(list(again.benches["tree"].values())).splitlines()[-2:] == [
        "| a | 2 us | 1.5 us | 3 us | 3 |",
        "| b | not here: why | | | |",
    ]
