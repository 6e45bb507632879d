"""Functions are timed where they stand, and stand there again afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Self

import pytest

from benchmarks.parts import is_part, measure_parts, part

HERE = sys.modules[__name__].__name__


def outer() -> int:
    """Calls the others."""
    return inner() + Thing.made().value() + core.answer()


def inner() -> int:
    return 1


class Thing:
    """Something with methods of two kinds."""

    @classmethod
    def made(cls) -> Self:
        """One of it."""
        return cls()

    def value(self) -> int:
        """Of one."""
        return 2


class _Sealed:
    """Takes no attributes, as the C core does not."""

    __slots__ = ()

    def answer(self) -> int:
        return 3


core = _Sealed()

PLACES = {name: f"{HERE}:{name}" for name in ("outer", "inner", "Thing.made", "Thing.value", "core.answer")}


def start() -> Callable[[], object]:
    """What is measured."""
    assert outer() == 6
    return lambda: None


def test_each_part_is_timed_within_the_whole() -> None:
    """Also a class method and a function of an object that takes no attributes."""
    figures = {figure.name: figure for figure in measure_parts("it", start, PLACES, times=3)}
    assert figures.keys() == {part("it", name) for name in PLACES}
    assert all(len(figure.samples) == 3 and min(figure.samples) > 0 for figure in figures.values())
    whole = figures["it: outer"].samples
    inside = zip(*(figures[f"it: {name}"].samples for name in PLACES if name != "outer"), strict=True)
    assert all(sum(parts) < one for one, parts in zip(whole, inside, strict=True))


def test_nothing_stays_in_place() -> None:
    before = (outer, inner, vars(Thing)["made"], vars(Thing)["value"], core)
    measure_parts("it", start, PLACES, times=1)
    assert (outer, inner, vars(Thing)["made"], vars(Thing)["value"], core) == before


def test_function_that_is_gone_is_missing() -> None:
    """It is said, and the rest is measured."""
    gone, found = measure_parts("it", start, {"gone": f"{HERE}:gone", "inner": f"{HERE}:inner"}, times=1)[::-1]
    assert "no attribute 'gone'" in gone.missing
    assert found.samples


@pytest.mark.parametrize(("figure", "belongs"), [("it: outer", True), ("it, small: outer", False), ("it", False)])
def test_part_belongs_to_its_call(figure: str, *, belongs: bool) -> None:
    assert is_part("it", figure) is belongs
