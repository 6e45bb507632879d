"""The catalogue of mutants fits the tree: a change of the code carries them along. `make mutants` tries them."""

from __future__ import annotations

import ast

from tests.mutation.catalogue import ROOT, load, misfit
from tests.mutation.generator import generated

_LEAST = 100


def test_every_mutant_applies_exactly_once() -> None:
    mutants = load()
    assert len(mutants) >= _LEAST
    assert [reason for mutant in mutants if (reason := misfit(mutant))] == []


def test_every_mutant_of_python_is_python() -> None:
    """One that cannot be compiled would be noticed by anything."""
    for mutant in load():
        if not mutant.compiled:
            ast.parse(mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8")), mutant.name)


def test_a_text_that_changed_is_named() -> None:
    mutant = load()[0]
    changed = type(mutant)(name="x/y", file=mutant.file, find="nowhere to be seen", put="", tests=mutant.tests)
    assert misfit(changed) == f"x/y: its text stands 0 times in {mutant.file}"


def test_one_of_which_nothing_is_known_is_never_right() -> None:
    """A reason why nobody can notice it does not excuse that it could not be tried."""
    assert {mutant.expected for mutant in load()} == {"killed", "SURVIVED"}
    assert all((mutant.expected == "SURVIVED") == bool(mutant.equivalent) for mutant in load())


def test_the_made_ones_are_the_same_each_time_and_python() -> None:
    sample = generated(100, seed=7)
    assert [mutant.name for mutant in sample] == [mutant.name for mutant in generated(100, seed=7)]
    for mutant in sample:
        if not mutant.compiled:
            ast.parse(mutant.put, mutant.name)
