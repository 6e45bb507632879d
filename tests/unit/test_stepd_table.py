"""The supervisor's table: total, every state reached and left again, and nothing done before what has to be recorded first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from spurproc.proto.step_state import StepState
from spurproc.stepd.table import REQUESTS, TABLE, Effect, Facts, Move, StepEvent, move

EVERY_STEP = [
    Facts(has_leader=leader, has_prolog=prolog, has_epilog=epilog, prolog_left=prolog and left)
    for leader, prolog, epilog, left in itertools.product((True, False), repeat=4)
    if prolog or not left
]

FIRST = {
    Effect.REAP_LEADER: Effect.RECORD_EXIT_OBSERVED,
    Effect.TELL_ENDED: Effect.RECORD_EXIT_OBSERVED,
    Effect.RUN_HOOK: Effect.RECORD_HOOK_BEGUN,
    Effect.RECORD_HOOK_COMPLETED: Effect.RUN_HOOK,
    Effect.SPAWN_LEADER: Effect.DESCRIBE,
    Effect.SAY_READY: Effect.DESCRIBE,
    Effect.DESCRIBE: Effect.MAKE_CGROUP,
    Effect.HAND_OVER: Effect.SPAWN_LEADER,
    Effect.DESCRIBE_LEADER: Effect.HAND_OVER,
    Effect.RECORD_GATE_OPENING: Effect.DESCRIBE_LEADER,
    Effect.OPEN_GATE: Effect.RECORD_GATE_OPENING,
    Effect.RECORD_LAUNCHED: Effect.OPEN_GATE,
    Effect.RECORD_EMPTIED: Effect.WALK_PLAN,
    Effect.TELL_COMPLETED: Effect.RECORD_EMPTIED,
    Effect.LEAVE: Effect.TELL_COMPLETED,
    Effect.THAW: Effect.FREEZE,
}
"""What has to have been done before: by this supervisor, on every way that leads to it."""

EXCUSED = {
    (Effect.TELL_ENDED, StepState.NEW),  # a step was taken over: that was done by the supervisor before
    (Effect.LEAVE, StepState.HELD),  # its folder was removed: there is nothing to complete
}

ONCE = {
    Effect.SPAWN_LEADER,
    Effect.HAND_OVER,
    Effect.OPEN_GATE,
    Effect.RECORD_EXIT_OBSERVED,
    Effect.REAP_LEADER,
    Effect.RECORD_EMPTIED,
    Effect.LEAVE,
}

Way = tuple[StepState, frozenset[Effect]]


def next_moves(state: StepState, facts: Facts) -> Iterator[tuple[StepEvent, Move]]:
    for event in StepEvent:
        answer = move(state, event, facts)
        if answer is not None:
            yield event, answer


def every_move(facts: Facts) -> Iterator[tuple[Way, StepEvent, Move]]:
    """Each move out of each state with each set of effects that a way from NEW to there can have done."""
    seen: set[Way] = set()
    waiting: list[Way] = [(StepState.NEW, frozenset())]
    while waiting:
        way = waiting.pop()
        if way in seen:
            continue
        seen.add(way)
        for event, answer in next_moves(way[0], facts):
            yield way, event, answer
            waiting.append((answer.state, way[1] | frozenset(answer.effects)))


def reached_from(start: StepState, facts: Facts) -> set[StepState]:
    found, waiting = set(), [start]
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            waiting.extend(answer.state for _, answer in next_moves(state, facts))
    return found


def test_every_pair_has_its_place() -> None:
    assert set(TABLE) == set(itertools.product(StepState, StepEvent))


def test_only_requests_are_refused() -> None:
    assert {event for (_, event), handler in TABLE.items() if handler is None} <= REQUESTS


def test_every_state_is_reached() -> None:
    assert set().union(*(reached_from(StepState.NEW, facts) for facts in EVERY_STEP)) == set(StepState)


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_a_step_can_end_from_wherever_it_stands(facts: Facts) -> None:
    for state in reached_from(StepState.NEW, facts):
        assert StepState.LEAVING in reached_from(state, facts), state


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_nothing_is_done_before_what_it_rests_on(facts: Facts) -> None:
    for (state, done), event, answer in every_move(facts):
        before = set(done)
        for effect in answer.effects:
            first = FIRST.get(effect)
            assert first is None or first in before or (effect, state) in EXCUSED, f"{effect} before {first}: {event} in {state}"
            before.add(effect)


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_what_must_happen_once_happens_once(facts: Facts) -> None:
    for (state, done), event, answer in every_move(facts):
        again = ONCE & done & set(answer.effects)
        assert not again, f"{again} by {event} in {state}, which can have been done on the way there"
        assert len(set(answer.effects)) == len(answer.effects)


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_a_hook_is_recorded_right_before_it_runs(facts: Facts) -> None:
    for _, _, answer in every_move(facts):
        for place, effect in enumerate(answer.effects):
            if effect is Effect.RUN_HOOK:
                assert answer.effects[place - 1] is Effect.RECORD_HOOK_BEGUN


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_no_leader_runs_after_an_end_was_recorded(facts: Facts) -> None:
    for (_, done), _, answer in every_move(facts):
        if Effect.RECORD_EXIT_OBSERVED in done:
            assert not {Effect.SPAWN_LEADER, Effect.OPEN_GATE} & set(answer.effects)


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_a_prolog_runs_before_the_leader_and_an_epilog_before_the_step_is_completed(facts: Facts) -> None:
    for (_, done), event, answer in every_move(facts):
        if Effect.SPAWN_LEADER in answer.effects and facts.has_prolog:
            assert event is StepEvent.HOOK_PASSED
            assert Effect.RECORD_HOOK_COMPLETED in answer.effects
        if Effect.TELL_COMPLETED in answer.effects and facts.has_epilog:
            assert event in (StepEvent.HOOK_PASSED, StepEvent.HOOK_FAILED)
            assert Effect.RECORD_EMPTIED in done


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_whoever_lives_on_as_a_supervisor_has_lowered_itself(facts: Facts) -> None:
    """While a tree runs, or what is left of one whose supervisor died is ended."""
    for (_, done), _, answer in every_move(facts):
        if answer.state in (StepState.RUNNING, StepState.SUSPENDED):
            assert Effect.LOWER in done | set(answer.effects)


@pytest.mark.parametrize("facts", [facts for facts in EVERY_STEP if not facts.has_leader])
def test_a_step_without_a_leader_spawns_none(facts: Facts) -> None:
    assert not any({Effect.SPAWN_LEADER, Effect.OPEN_GATE} & set(answer.effects) for _, _, answer in every_move(facts))


def test_a_terminate_is_heeded_until_the_epilog() -> None:
    """Nobody is told to try again later by a step that may run on for days."""
    refusing = {state for state in StepState if TABLE[state, StepEvent.TERMINATE] is None}
    assert refusing == {StepState.NEW, StepState.EPILOG, StepState.LEAVING}


@pytest.mark.parametrize("facts", EVERY_STEP)
def test_a_successor_acts_on_nothing_that_it_has_not_taken_over(facts: Facts) -> None:
    answer = move(StepState.NEW, StepEvent.SUCCEED, facts)
    assert answer is not None
    assert answer.effects[:2] == (Effect.BIND, Effect.INHERIT)


def test_a_step_that_is_told_to_end_while_it_starts_says_that_it_was_launched() -> None:
    """Whoever comes after both its keepers may conclude more from that."""
    answer = move(StepState.STOPPING, StepEvent.EXECUTED, EVERY_STEP[0])
    assert answer == Move(StepState.STOPPING, (Effect.RECORD_LAUNCHED, Effect.LOWER))
