"""The rows of the agent's store: what is durable about an attempt, why the node is drained, what it knows of itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store import attempts, drains, node_values
from spurproc.agent.store.attempt_row import AttemptRow, AttemptState, CancelIntent, Obligation
from spurproc.agent.store.file import open_connection
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.errors import AlreadyGone, InvalidArgument, RecordInvalid
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import exited, job_spec

ONE, TWO = AttemptId(7, 1), AttemptId(7, 2)
SPEC = job_spec(env=("A=é",))
GIVEN = Allocation(cpus=(1, 3), memory_bytes=5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_connection(f"{tmp_path}/agent.db", AGENT_SCHEMA)) as connection:
        yield connection


def row(store: sqlite3.Connection, attempt: AttemptId = ONE) -> AttemptRow:
    found = attempts.find(store, attempt)
    assert found is not None
    return found


def test_an_attempt_is_taken_on_once_with_what_it_was_given(store: sqlite3.Connection) -> None:
    assert attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    assert not attempts.accept(store, ONE, job_spec(name="other"), Allocation(cpus=(0,)), at=2.0)
    assert attempts.accept(store, TWO, SPEC, GIVEN, at=3.0)
    assert attempts.spec_of(store, ONE) == SPEC
    found = row(store)
    assert (found.state, found.allocation, found.accepted_at) == (AttemptState.ACCEPTED, GIVEN, 1.0)
    assert (found.cancel, found.end, found.owed) == (None, None, tuple(Obligation))
    assert [one.attempt for one in attempts.load_all(store)[0]] == [ONE, TWO]
    assert attempts.find(store, AttemptId(8, 1)) is None


def test_one_of_which_nothing_is_known_gets_a_row_with_its_end(store: sqlite3.Connection) -> None:
    """What it was given nobody knows: of what is not over that would be a row that cannot be read."""
    attempts.accept(store, TWO, SPEC, GIVEN, at=1.0)
    for attempt, spec in ((ONE, None), (TWO, None)):
        attempts.take_up(store, attempt, spec, uid=5, at=2.0)
    assert row(store, TWO).allocation == GIVEN
    with pytest.raises(RecordInvalid, match="allocation"):
        row(store)
    attempts.record_end(store, ONE, exited(3))
    found = row(store)
    assert (found.allocation, found.uid, found.launched, found.end, found.owed) == (None, 5, b"", exited(3), tuple(Obligation))
    with pytest.raises(RecordInvalid, match="spec"):
        attempts.spec_of(store, ONE)


def test_the_first_end_and_the_first_intent_count(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    first = CancelIntent(uid=7, why="no need", at=2.0)
    assert attempts.intend_cancel(store, ONE, first) == first
    assert attempts.intend_cancel(store, ONE, CancelIntent(uid=None, why="late", at=3.0)) == first
    assert attempts.record_end(store, ONE, exited(3)) == exited(3)
    assert attempts.record_end(store, ONE, exited(4)) == exited(3)
    assert (row(store).cancel, row(store).end) == (first, exited(3))


def test_one_that_was_told_to_end_can_be_given_up(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    first = CancelIntent(uid=7, why="no need", at=2.0, at_boot_s=5.0)
    attempts.intend_cancel(store, ONE, first)
    both = msgspec.structs.replace(first, given_up=True)
    assert attempts.intend_cancel(store, ONE, CancelIntent(uid=None, why="lost", at=3.0, given_up=True)) == both
    assert attempts.intend_cancel(store, ONE, CancelIntent(uid=7, why="again", at=4.0)) == both
    assert row(store).cancel == both


def test_by_what_it_was_launched_first_is_noted_and_stays(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    assert row(store).launched is None
    attempts.note_launch(store, ONE, b"")
    attempts.note_launch(store, ONE, b"{}")
    attempts.intend_cancel(store, ONE, CancelIntent(uid=7, why="no need", at=2.0))
    attempts.set_state(store, ONE, AttemptState.LAUNCHING)
    assert row(store).launched == b""


def test_an_obligation_is_discharged_once_and_the_next_one_is_owed(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    for place, obligation in enumerate(Obligation):
        assert row(store).owed == tuple(Obligation)[place:]
        assert row(store).holds_resources == (place <= 1)
        with pytest.raises(InvalidArgument, match=f"still owes {obligation.value}"):
            attempts.forget(store, ONE)
        assert attempts.discharge(store, ONE, obligation, "done")
        assert not attempts.discharge(store, ONE, obligation, "again")
        assert row(store).outcomes[obligation] == "done"
    attempts.forget(store, ONE)
    attempts.forget(store, ONE)
    assert attempts.find(store, ONE) is None


def test_a_refused_report_stays_owed_and_is_counted(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    assert [attempts.note_refusal(store, ONE, why) for why in ("who?", "no")] == [1, 2]
    assert (row(store).report_refusals, row(store).report_refused_because) == (2, "no")
    assert Obligation.REPORT in row(store).owed


def test_what_is_held_says_why_until_it_goes_on(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    for state in AttemptState:
        attempts.set_state(store, ONE, state)
        assert row(store).state is state
        attempts.hold(store, ONE, "nobody can tell")
        assert (row(store).state, row(store).held_because) == (AttemptState.HELD, "nobody can tell")
    attempts.set_state(store, ONE, AttemptState.RUNNING)
    assert row(store).held_because is None


def test_nothing_is_written_about_what_is_not_there(store: sqlite3.Connection) -> None:
    acts: list[Callable[[], object]] = [
        lambda: attempts.set_state(store, ONE, AttemptState.RUNNING),
        lambda: attempts.hold(store, ONE, "why"),
        lambda: attempts.record_end(store, ONE, exited(0)),
        lambda: attempts.discharge(store, ONE, Obligation.EPILOG, "done"),
        lambda: attempts.note_refusal(store, ONE, "why"),
        lambda: attempts.intend_cancel(store, ONE, CancelIntent(uid=1, why="", at=1.0)),
        lambda: attempts.spec_of(store, ONE),
    ]
    for act in acts:
        with pytest.raises(AlreadyGone, match=r"attempt 7\.1"):
            act()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "of a later release"),
        ("allocation", b'{"cpus": []}'),
        ("allocation", "{}"),
        ("end", b"{"),
        ("cancel", b"\xff"),
        ("accepted_at", "yesterday"),
        ("uid", "root"),
        ("started_at", b"1.0"),
        ("launched", "e30="),
        ("report_refusals", "often"),
    ],
)
def test_a_row_that_cannot_be_read_is_told_apart_and_stops_no_other(
    store: sqlite3.Connection, column: str, value: object
) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    attempts.accept(store, TWO, SPEC, GIVEN, at=1.0)
    store.execute(f"UPDATE attempts SET {column} = ? WHERE run_attempt = 1", (value,))
    rows, damaged = attempts.load_all(store)
    assert [one.attempt for one in rows] == [TWO]
    assert [one.attempt for one in damaged] == [ONE]
    assert "attempt 7.1" in damaged[0].why
    with pytest.raises(RecordInvalid):
        attempts.find(store, ONE)
    assert store.execute(f"SELECT {column} FROM attempts WHERE run_attempt = 1").fetchone() == (value,)


def test_a_text_that_is_none_is_told_as_far_as_it_goes(store: sqlite3.Connection) -> None:
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    store.execute("UPDATE attempts SET node_fault = CAST(x'6eff' AS TEXT)")
    assert row(store).node_fault == "n\N{REPLACEMENT CHARACTER}"


def test_an_end_and_an_intent_that_cannot_be_read_are_written_anew(store: sqlite3.Connection) -> None:
    """Else nothing could ever be done about what they are of."""
    attempts.accept(store, ONE, SPEC, GIVEN, at=1.0)
    store.execute("UPDATE attempts SET end = x'00', cancel = 'why'")
    intent = CancelIntent(uid=7, why="no need", at=2.0)
    assert attempts.intend_cancel(store, ONE, intent) == intent
    assert attempts.record_end(store, ONE, exited(3), started_at=2.0) == exited(3)
    assert (row(store).cancel, row(store).end, row(store).started_at) == (intent, exited(3), 2.0)


def test_a_drain_of_a_kind_that_is_not_known_stands_until_the_operator_lifts_it(store: sqlite3.Connection) -> None:
    """As of a later release. It says so itself; the system's of the same cause is another one."""
    system = drains.Drain(kind=drains.DrainKind.SYSTEM, cause="disk", why="it is full", since=2.0)
    store.execute("INSERT INTO drains VALUES ('maintenance', 'disk', 'it is replaced', 'soon')")
    drains.add_drain(store, system)
    other, odd = drains.drains(store)
    assert (odd.kind, odd.cause, odd.since, other) == (drains.DrainKind.OPERATOR, "disk", 0.0, system)
    assert odd.why == "it is replaced (a drain of a kind that is not known: 'maintenance')"
    assert not drains.lift_drain(store, drains.DrainKind.OPERATOR, "network")
    assert drains.lift_drain(store, odd.kind, odd.cause)
    assert drains.drains(store) == (system,)


def test_no_row_is_of_what_is_no_attempt(store: sqlite3.Connection) -> None:
    for job_id, run_attempt in ((0, 1), (1, 0), (1, 2**32)):
        with pytest.raises(sqlite3.IntegrityError):
            store.execute(
                "INSERT INTO attempts (job_id, run_attempt, state, accepted_at, allocation, spec)"
                " VALUES (?, ?, 'held', 1, '', '')",
                (job_id, run_attempt),
            )


def test_each_reason_to_drain_stands_by_itself(store: sqlite3.Connection) -> None:
    mine = drains.Drain(kind=drains.DrainKind.OPERATOR, cause=drains.OPERATOR, why="maintenance", since=1.0)
    epilog = drains.Drain(kind=drains.DrainKind.SYSTEM, cause="epilog 7.1", why="it failed", since=2.0)
    for drain in (epilog, mine):
        drains.add_drain(store, drain)
    assert drains.drains(store) == (mine, epilog)
    drains.add_drain(store, drains.Drain(kind=mine.kind, cause=mine.cause, why="still", since=3.0))
    (operator, _) = drains.drains(store)
    assert (operator.why, operator.since) == ("still", 1.0)
    assert not drains.lift_drain(store, drains.DrainKind.SYSTEM, drains.OPERATOR), "a system drain is no operator's"
    assert drains.lift_drain(store, epilog.kind, epilog.cause)
    assert not drains.lift_drain(store, epilog.kind, epilog.cause)
    assert [one.cause for one in drains.drains(store)] == [drains.OPERATOR]


def test_a_value_of_the_node_takes_the_place_of_the_one_before(store: sqlite3.Connection) -> None:
    name = node_values.NodeValue.ACCEPTED_INVENTORY
    assert node_values.read_value(store, name) is None
    for value in (b"one", b"\0two"):
        node_values.write_value(store, name, value, at=1.0)
        assert node_values.read_value(store, name) == value
    assert node_values.read_value(store, node_values.NodeValue.HELD_BACK) is None
