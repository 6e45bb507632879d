"""What the node shows of its attempts, without a node."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.dispatch import Attempts, OutdatedOrder
from spurproc.agent.attempts.effect import Effect
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.step import cut_short
from spurproc.agent.controller.link import Dispatch, Reclaim, Unreachable
from spurproc.agent.daemon import ending
from spurproc.agent.daemon.node_side import node_side
from spurproc.agent.log import open_log
from spurproc.agent.node.exit_codes import ExitCode
from spurproc.agent.node.quarantine import QuarantinedTree
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.request import ResourceRequest
from spurproc.agent.store.attempt_row import AttemptState
from spurproc.agent.store.drains import Drain, DrainKind
from spurproc.core.exit_info import ExitInfo
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import SystemCallError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.runtime_id import BATCH_STEP
from tests.agent_around import surroundings
from tests.agent_values import job_spec

_NONE = cast("Any", None)
_DRAIN = Drain(kind=DrainKind.SYSTEM, cause="inventory", why="a GPU vanished", since=1.0)


def test_nothing_fits_a_node_that_drains_or_ends() -> None:
    """Whether or not the controller was told yet."""
    around = surroundings()
    attempts = Attempts(around)
    assert attempts.fits(ResourceRequest(cpus=2))
    assert not attempts.fits(ResourceRequest(cpus=3))
    around.drains = (_DRAIN,)
    assert not attempts.fits(ResourceRequest(cpus=1))
    around.drains = ()
    around.ending = True
    assert not attempts.fits(ResourceRequest(cpus=1))


def test_a_quarantine_that_cannot_be_written_down_is_told_by_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise SystemCallError(errno.ENOSPC, "No space left on device")

    async def unreachable() -> None:
        raise Unreachable("the test says so")

    tree = QuarantinedTree(name="1.1.batch", reason="it lives", identity_texts=(ProcessIdentity.of(os.getpid()).to_text(),))
    monkeypatch.setattr(ending, "unnamed", lambda *_: [tree])
    monkeypatch.setattr(ending, "write_quarantine", full)
    around = surroundings()
    around.log = open_log("error", "text")
    around.state_dir = cast("Any", SimpleNamespace(steps=_NONE))
    around.ownership = cast("Any", SimpleNamespace(require=lambda: None))
    around.link = cast("Any", SimpleNamespace(deregister=unreachable))
    assert asyncio.run(ending.leave(around, Attempts(around))) is ExitCode.QUARANTINED


def test_a_node_without_attempts_owes_nothing() -> None:
    attempts = Attempts(surroundings())
    assert attempts.owes_nothing
    assert attempts.running == ()
    assert len(attempts) == 0


def test_a_dispatch_that_is_said_again_claims_nothing(tmp_path: Path) -> None:
    """Of one that is known, with its resources given back by now; and of one of which nothing but its step folder stands."""
    known, of_folder = AttemptId(1, 1), AttemptId(2, 1)
    around = surroundings()
    around.state_dir = cast("Any", SimpleNamespace(steps=SimpleNamespace(path=str(tmp_path))))
    (tmp_path / "runtime" / str(of_folder.step(BATCH_STEP))).mkdir(parents=True)
    attempts = Attempts(around)
    attempts.add(Attempt(id=known, allocation=Allocation(cpus=(0,)), accepted_at=0.0, uid=0, has_claim=False))
    for attempt in (known, of_folder):
        asyncio.run(attempts.take_on(Dispatch(attempt=attempt, spec=job_spec())))
    assert attempts.find(of_folder) is None
    assert not around.resources.claims


def test_an_attempt_in_whose_place_a_later_one_is_here_is_not_taken_on(tmp_path: Path) -> None:
    """As by a message that comes late. It would run beside it."""
    around = surroundings()
    around.state_dir = cast("Any", SimpleNamespace(steps=SimpleNamespace(path=str(tmp_path))))
    attempts = Attempts(around)
    attempts.add(Attempt(id=AttemptId(1, 2), allocation=Allocation(cpus=(0,)), accepted_at=0.0, uid=0))
    with pytest.raises(OutdatedOrder, match=r"cannot take on attempt 1\.1: attempt 1\.2 of that job is here"):
        asyncio.run(attempts.take_on(Dispatch(attempt=AttemptId(1, 1), spec=job_spec())))
    assert (len(attempts), dict(around.resources.claims)) == (1, {})


def test_a_later_attempt_begins_once_one_that_may_live_has_cleared_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody knows what that one was given, so that it has no claim."""
    around = surroundings()
    around.log = open_log("error", "text")
    attempts = Attempts(around)
    posted: list[tuple[AttemptId, AttemptEvent]] = []
    monkeypatch.setattr(attempts.runner, "post", lambda attempt, event: posted.append((attempt.id, event)))
    earlier = Attempt(id=AttemptId(1, 1), allocation=None, accepted_at=0.0, uid=0, state=AttemptState.HELD, has_claim=False)
    later = Attempt(id=AttemptId(1, 2), allocation=Allocation(cpus=(0,)), accepted_at=0.0, uid=0)
    attempts.add(earlier)
    attempts.add(later)
    attempts.begin(later)
    earlier.state = AttemptState.EPILOG
    attempts.freed()
    assert posted == [(earlier.id, AttemptEvent.CANCEL)]
    earlier.state = AttemptState.REPORTING
    asyncio.run(cast("Any", attempts.runner._methods[Effect.RELEASE](earlier)))
    assert posted[1:] == [(later.id, AttemptEvent.BEGIN)]


def test_one_that_was_told_to_end_is_given_up_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """On record, so that the next agent knows it; once, however often its controller says so."""
    around = surroundings()
    attempts = Attempts(around)
    posted: list[AttemptEvent] = []
    monkeypatch.setattr(attempts.runner, "post", lambda _, event: posted.append(event))
    attempt = Attempt(id=AttemptId(1, 1), allocation=None, accepted_at=0.0, uid=0, state=AttemptState.ENDING)
    attempts.add(attempt)
    first = attempt.cancel = around.intent("no need", uid=7)
    side = node_side(around, attempts)
    side.reclaim(Reclaim(attempt=attempt.id))
    side.reclaim(Reclaim(attempt=attempt.id))
    assert attempt.cancel == msgspec.structs.replace(first, given_up=True)
    assert posted == [AttemptEvent.CANCEL]


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        (ExitInfo.not_started("GATE", 0, reason="nobody sent start within 60 s"), True),
        (ExitInfo.not_started("NONE", 0, reason="it was told to end before it had a leader"), False),
        (ExitInfo.not_started("EXEC", 2), False),
        (ExitInfo.unknown("nobody saw it"), False),
    ],
)
def test_a_launch_that_was_cut_short_is_the_nodes_fault(end: ExitInfo, *, fault: bool) -> None:
    """As when the agent was killed on the way, and no other came in time: a job that asked for it is run again."""
    assert (cut_short(end) is not None) == fault
