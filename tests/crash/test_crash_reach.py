"""The matrix leaves nothing out: each effect, move, act and durable call is a place that is struck, or stands in reach.py."""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from spurproc.proto.step_state import StepState
from spurproc.stepd.table import Effect, Facts, StepEvent, move
from tests.crash import reach
from tests.crash.matrix import FAULTS, VICTIMS, cells
from tests.crash.points import DURABLE_CALLS, DURABLE_MODULES
from tests.crash.rows import ROW_OF, ROWS, unplaced
from tests.crash.theatre import Theatre

pytestmark = [pytest.mark.needs_cgroup_v2, pytest.mark.needs_root]


def passed(theatre: Theatre, kind: str) -> set[tuple[str, str]]:
    return {(stand.place.when, stand.place.point) for trace in theatre.traces().values() for stand in trace if stand.kind == kind}


def moves_with_effects() -> Iterator[str]:
    for leader, prolog, epilog, left in itertools.product((True, False), repeat=4):
        facts = Facts(has_leader=leader, has_prolog=prolog, has_epilog=epilog, prolog_left=prolog and left)
        for state, event in itertools.product(StepState, StepEvent):
            answer = move(state, event, facts)
            if answer is not None and answer.effects:
                yield f"{state.name}+{event.name}"


def durable_calls() -> Iterator[str]:
    """In the text of the watched modules: function:call."""
    for module in DURABLE_MODULES:
        tree = ast.parse(Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8"))
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
                match call.func:
                    case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in DURABLE_CALLS:
                        yield f"{function.name}:{name}"


def test_whatever_the_table_or_the_host_can_do_has_its_row() -> None:
    assert unplaced() == []


@pytest.mark.parametrize("effect", Effect)
def test_each_effect_is_struck_before_and_after(theatre: Theatre, effect: Effect) -> None:
    assert {("before", effect.value), ("after", effect.value)} <= passed(theatre, "act")


def test_each_move_of_the_table_is_taken_or_is_known_not_to_be(theatre: Theatre) -> None:
    taken = {point for _, point in passed(theatre, "move")}
    assert set(moves_with_effects()) - taken == set(reach.MOVES)


def test_each_act_of_a_row_is_done_or_is_known_not_to_be(theatre: Theatre) -> None:
    done = {point for _, point in passed(theatre, "act")}
    assert set(ROW_OF) - done == set(reach.ACTS)


def test_each_durable_call_is_made_or_is_known_not_to_be(theatre: Theatre) -> None:
    made = {point for _, point in passed(theatre, "write")}
    assert set(durable_calls()) - made == set(reach.CALLS)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_cells_for_whoever_and_whatever_can_strike_there(theatre: Theatre, row: int) -> None:
    wrong = []
    for victims, fault in itertools.product(VICTIMS, FAULTS):
        why = reach.why_empty(row, victims, fault)
        count = len(cells(theatre, row, victims, fault))
        if bool(count) is bool(why):
            wrong.append(f"{'+'.join(victims)}, {fault}: {count} cells; {why or 'and no reason why there is none'}")
    assert wrong == []
