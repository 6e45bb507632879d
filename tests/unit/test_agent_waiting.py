"""Who waits for a job, and an agent that lets them in and tells nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from spurproc.agent.cli import waiting
from spurproc.agent.cli.failure import AgentUnreachable


class _Turncoat:
    """An agent, and the connection to it."""

    def __init__(self) -> None:
        self.connected = 0

    def connect(self) -> _Turncoat:
        self.connected += 1
        return self

    def wait(self, _job_id: int, *, timeout_s: float) -> Iterator[Any]:
        raise AgentUnreachable("it hung up; ask again", comes_back=True)

    def close(self) -> None:
        """Nothing."""


def test_one_that_lets_us_in_and_hangs_up_is_told_of_once_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_COMES_BACK_WITHIN_S", 0.1)
    monkeypatch.setattr(waiting, "_LOOK_S", 0.05)
    turncoat, told = _Turncoat(), list[str]()
    with pytest.raises(AgentUnreachable):
        list(waiting._standings(turncoat, None, 7, told.append, math.inf))  # type: ignore[arg-type]
    assert told == ["it hung up"]
    assert 1 < turncoat.connected < 10


class _Restless(_Turncoat):
    """One that tells each who is let in where the job stands, and hangs up until it has told its end."""

    def wait(self, _job_id: int, *, timeout_s: float) -> Iterator[Any]:
        yield "queued"
        if self.connected < 3:
            yield from super().wait(_job_id, timeout_s=timeout_s)
        yield "ended"


def test_what_was_told_over_one_connection_is_not_told_again_over_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_S", 0.0)
    assert list(waiting._standings(_Restless(), None, 7, lambda _: None, math.inf)) == ["queued", "ended"]  # type: ignore[arg-type, comparison-overlap]
