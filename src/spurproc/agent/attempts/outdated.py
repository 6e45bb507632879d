"""A store that is older than what has run since: one that was restored from a backup. What it shows as not begun may have run."""

from __future__ import annotations

import sqlite3
from collections.abc import Container
from functools import partial

from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.store.attempt_row import Obligation
from spurproc.agent.store.attempts import discharge, load_all, record_end
from spurproc.agent.store.mark import Mark
from spurproc.agent.store.node_values import read_reports, write_reports
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import RecordInvalid
from spurproc.proto.attempt_id import AttemptId

__all__ = ["note_report", "settle_outdated"]

_WHY = "the agent's store is older than what has run since, and no step folder tells of it: whether it ran nobody knows"


async def settle_outdated(around: Surroundings, seen: Container[AttemptId]) -> None:
    """End, as UNKNOWN, what the store would launch again. `seen`: those with a step folder, which says what they did."""
    try:
        around.reports = await around.database.read(read_reports)
    except RecordInvalid as error:
        await _count_as_marked(around, error)
    if around.mark.damage:
        around.problems["mark"] = f"nobody can tell whether the agent's store is an older copy: {around.mark.damage}"
    if around.mark.mark.reports <= around.reports:
        return
    around.reports = around.mark.mark.reports
    settled = await around.database.write(partial(_settle, seen=seen, reports=around.reports, at=around.clock()))
    around.problems["store"] = (
        f"the agent's store was older than what has run: {len(settled)} attempts have an unknown end by that"
    )
    around.log.warning("the agent's store is older than what has run", settled=[str(attempt) for attempt in settled])


async def _count_as_marked(around: Surroundings, error: RecordInvalid) -> None:
    """Nobody can tell whether it is older than its mark; from here on it counts with that again."""
    around.reports = around.mark.mark.reports
    around.problems["store"] = f"nobody can tell whether the agent's store is an older copy: {error}"
    body = partial(write_reports, reports=around.reports, at=around.clock())
    await around.database.write(body)


def _settle(connection: sqlite3.Connection, *, seen: Container[AttemptId], reports: int, at: float) -> list[AttemptId]:
    """Its epilog may have run as well, and is not run a second time."""
    rows, _ = load_all(connection)
    settled = [row.attempt for row in rows if row.end is None and row.attempt not in seen]
    for attempt in settled:
        record_end(connection, attempt, ExitInfo.unknown(_WHY))
        discharge(connection, attempt, Obligation.EPILOG, "not known")
    write_reports(connection, reports, at=at)
    return settled


def note_report(around: Surroundings) -> None:
    """Before the folders of an attempt go: its report was taken, which by now is durable in the store."""
    around.mark.raise_to(Mark(reports=around.reports))
