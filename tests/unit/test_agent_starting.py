"""The way of an attempt to its step, without a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spurproc.agent.attempts import step
from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.event import AttemptEvent
from spurproc.agent.attempts.lacking import Lacking
from spurproc.agent.attempts.starting import Starting
from spurproc.agent.attempts.tasks import Work
from spurproc.agent.node.state_dir import StateDir
from spurproc.agent.resources.allocation import Allocation
from spurproc.agent.store.attempt_row import AttemptState, CancelIntent
from spurproc.core.exit_info import ExitKind
from spurproc.errors import AlreadyGone
from spurproc.proto.attempt_id import AttemptId
from tests.agent_values import job_spec


def test_a_job_without_script_and_scratch_folder_waits_for_no_thread() -> None:
    """There is nothing to be made: nor is there a node that could make it."""
    posted: list[AttemptEvent] = []
    attempt = Attempt(
        id=AttemptId(1, 1), allocation=Allocation(cpus=(0,)), accepted_at=0.0, uid=0, spec=job_spec(argv=("true",), work_dir="/")
    )
    nobody = cast("Any", None)
    starting = Starting(nobody, lambda _, event: posted.append(event), lambda *_: None, Lacking(nobody))
    asyncio.run(starting.prepare(attempt))
    assert attempt.begun
    assert posted == []


def test_what_was_told_to_end_while_it_was_prepared_is_not_launched() -> None:
    """Nothing but its end is asked of anybody: there is no node that could launch it."""
    posted: list[AttemptEvent] = []
    begun: list[Work] = []
    attempt = Attempt(
        id=AttemptId(1, 1),
        allocation=Allocation(cpus=(0,)),
        accepted_at=0.0,
        uid=0,
        state=AttemptState.LAUNCHING,
        spec=job_spec(),
        cancel=CancelIntent(uid=0, why="by the test", at=1.0),
    )
    nobody = cast("Any", None)
    starting = Starting(nobody, lambda _, event: posted.append(event), lambda _, work: begun.append(work), Lacking(nobody))

    async def launch() -> None:
        await starting.launch(attempt)
        for work in begun:
            await work(attempt)

    asyncio.run(launch())
    assert posted == [AttemptEvent.NOT_LAUNCHED]
    assert attempt.end is not None
    assert attempt.end.kind is ExitKind.NOT_STARTED
    assert attempt.node_fault is None


def test_what_could_not_be_found_again_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor, by which that would be done, cannot be read as it stands ready: no other is noted in its place."""
    noted: list[bytes] = []
    attempt = Attempt(id=AttemptId(1, 1), allocation=Allocation(cpus=(0,)), accepted_at=0.0, uid=0)

    def launch(*_: object, before_start: Callable[[], None], **__: object) -> None:
        before_start()

    monkeypatch.setattr(step, "launch", launch)
    monkeypatch.setattr(step, "step_spec", lambda *_: None)
    with StateDir.open(tmp_path / "state") as state_dir:
        ownership = SimpleNamespace(require=lambda: None)
        around = cast("Any", SimpleNamespace(state_dir=state_dir, ownership=ownership, steps_inode=None))
        with pytest.raises(AlreadyGone):
            step.launch_step(around, attempt, job_spec(), noted.append)
    assert noted == []
