"""Single items of the databases that cannot be read: each is told of, and keeps nobody from starting."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents import NOTHING_LEFT, Agents
from tests.fifo import Gate
from tests.spurd_command import Spurd

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


def test_what_the_queue_says_wrongly_is_shown_and_stops_nothing(tmp_path: Path) -> None:
    """Who wants a job to end: somebody does. How one has ended: nobody knows. All others are told of as ever."""
    with Agents(tmp_path / "state").start() as agent:
        assert agent.ended(agent.submit("exit 3")) == "exited 3"
        assert agent.ended(agent.submit("exit 4")) == "exited 4"
        agent.submit("exec sleep 1000")
        agent.until("3.1", "running")
        agent.until_executed(3)
        agent.kill()
        _change(
            agent,
            "controller.db",
            "UPDATE attempts SET report = x'00' WHERE job_id = 1",
            "UPDATE attempts SET cancel = x'00' WHERE job_id = 3",
        )
        agent.start()
        assert agent.ended(3) == "killed by SIGTERM"
        spurd = Spurd(agent.path)
        jobs = {one["job_id"]: one for one in spurd.json("jobs", "--all")["jobs"]}
        assert [jobs[number]["damaged"] is None for number in (1, 2, 3)] == [False, True, False]
        assert (jobs[1]["exit"], jobs[2]["exit"]["code"], jobs[3]["cancelled"]) == (None, 4, True)
        assert "attempt 1.1, report" in spurd.json("show", 1)["attempts"][0]["damaged"]
        assert "attempt 1.1, report" in spurd.here("show", 1).out.replace("\n", "")
        assert spurd.here("wait", 1).code == 125
