"""Single items of the databases that cannot be read: each is told of, and keeps nobody from starting."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents
from tests.fifo import Gate

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_cgroup_v2]


def _change(agent: Agents, database: str, *statements: str) -> None:
    with closing(sqlite3.connect(agent.path / database)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount == 1


def test_what_the_store_says_wrongly_is_shown_and_stops_nothing(tmp_path: Path, gate: Callable[[str], Gate]) -> None:
    """A number that is none, a drain of a later release, a count that is lost."""
    go_on = gate("go_on")
    with Agents(tmp_path / "state").start() as agent:
        agent.submit(f"read x <{go_on.path}; exit 3")
        agent.until("1.1", "running")
        agent.until_executed(1)
        claims = agent.ask("claims")
        agent.kill()
        _change(
            agent,
            "agent.db",
            "UPDATE attempts SET accepted_at = 'yesterday'",
            "INSERT INTO drains VALUES ('maintenance', 'disk', 'it is replaced', 1.0)",
            "INSERT INTO node_values VALUES ('reports', 'many', 1.0)",
        )
        agent.start()
        assert "accepted_at" in agent.ask("attempts")["1.1"]["held"]
        assert agent.ask("claims") == claims
        assert agent.ask("drains") == ["it is replaced (a drain of a kind that is not known: 'maintenance')"]
        assert ["many" in problem for problem in agent.ask("problems")] == [True]
        go_on.open()
        assert agent.ended(1) == "exited 3"
        agent.until("1.1", "none")
        agent.kill()
        agent.start()
        assert agent.ask("problems") == []
        assert agent.ask("undrain")
        assert agent.ask("drains") == []
        assert agent.ended(agent.submit("exit 5")) == "exited 5"
        agent.until("2.1", "none")
        assert agent.folders() == NOTHING_LEFT
