"""The effects of an attempt, in the order in which its events come, without a node."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.blocking import Blocking
from spurproc.agent.attempts.effect import Effect
from spurproc.agent.attempts.effects import EffectRunner
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.records import record
from spurproc.agent.attempts.reporting import offer
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.link import Acknowledged, AttemptReport
from spurproc.agent.inventory.reading import Inventory
from spurproc.agent.log import open_log
from spurproc.agent.node.state_dir import StateDir
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.resources.table import ResourceTable
from spurproc.agent.store.attempt_row import AttemptState, CancelIntent
from spurproc.agent.store.attempts import accept, find, record_end
from spurproc.agent.store.database import Database
from spurproc.agent.store.mark import MarkFile
from spurproc.agent.store.schema import AGENT_SCHEMA
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import exited, job_spec

ATTEMPT = AttemptId(1, 1)
ALLOCATION = Allocation(cpus=(0,))


class _Link:
    """Has the report at once."""

    async def report(self, _: AttemptReport) -> Acknowledged:
        return Acknowledged()


def _around(path: Path, held: ExitStack) -> Surroundings:
    state_dir = held.enter_context(StateDir.open(path))
    return Surroundings(
        configuration=cast("Any", SimpleNamespace(prolog_argv=(), epilog_argv=("/bin/true",))),
        state_dir=state_dir,
        ownership=cast("Any", SimpleNamespace(require=lambda: None)),
        database=Database.open(path / "agent.db", AGENT_SCHEMA),
        mark=held.enter_context(MarkFile.open(state_dir.folder, "agent.mark")),
        resources=ResourceTable(Inventory(cpus=(0,))),
        link=cast("Any", _Link()),
        blocking=Blocking(1),
        log=open_log("error", "text"),
    )


def _ended(connection: sqlite3.Connection) -> None:
    accept(connection, ATTEMPT, job_spec(), ALLOCATION, at=1.0)
    record_end(connection, ATTEMPT, exited(0))


def test_a_word_to_end_that_came_with_the_end_is_as_durable_as_that(tmp_path: Path) -> None:
    """The report tells of both, by whichever agent."""
    database = Database.open(tmp_path / "agent.db", AGENT_SCHEMA)
    intent = CancelIntent(uid=7, why="no need", at=1.0)
    attempt = Attempt(id=ATTEMPT, allocation=ALLOCATION, accepted_at=1.0, uid=0, cancel=intent, end=exited(0))
    ended = record(attempt, (Effect.RECORD_END,), at=2.0)

    async def scene() -> None:
        await database.write(lambda connection: accept(connection, ATTEMPT, job_spec(), ALLOCATION, at=1.0))
        assert ended is not None
        await database.write(ended)
        row = await database.read(lambda connection: find(connection, ATTEMPT))
        assert row is not None
        assert (row.cancel, row.end) == (intent, exited(0))
        assert Attempt.of_row(row).report() == attempt.report()
        await database.close()

    asyncio.run(scene())


def test_what_comes_before_the_answer_to_its_report_does_not_forget_it(tmp_path: Path) -> None:
    """Its epilog is over, and the controller has answered, in one turn: nothing is removed before that answer is durable."""
    done: list[Effect] = []
    over = asyncio.Event()

    def pass_by(effect: Effect, where: str) -> None:
        if where == "before":
            done.append(effect)
        if effect is Effect.RECORD_FORGOTTEN:
            over.set()

    async def nothing(_: Attempt) -> None: ...

    async def scene(around: Surroundings) -> None:
        await around.database.write(_ended)
        around.resources.restore(ATTEMPT, ALLOCATION)
        attempt = Attempt(
            id=ATTEMPT, allocation=ALLOCATION, accepted_at=1.0, uid=0, state=AttemptState.EPILOG, begun=True, end=exited(0)
        )
        runner = EffectRunner(around, lambda _: None, lambda: None, nothing, failpoint=pass_by)
        runner.post(attempt, AttemptEvent.HOOK_PASSED)
        await offer(around, attempt, runner.post)  # answered before anybody else has had a turn
        await over.wait()
        await runner.close()
        await around.blocking.close()
        await around.database.close()

    async def main() -> None:
        with ExitStack() as held:
            await scene(_around(tmp_path / "state", held))

    asyncio.run(main())
    assert Effect.RECORD_REPORTED in done
    assert done.index(Effect.RECORD_REPORTED) < done.index(Effect.REMOVE_STEP)
