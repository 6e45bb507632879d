"""The client of the agent's socket, and answers that lead nowhere."""

from __future__ import annotations

from types import SimpleNamespace

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.service.replies import JobList


def test_an_empty_page_is_the_last() -> None:
    """Whatever it says itself."""
    client = AgentClient.__new__(AgentClient)
    client._lines = SimpleNamespace(ask=lambda *_: JobList(jobs=(), more=True))  # type: ignore[assignment]
    assert list(client.jobs()) == []
