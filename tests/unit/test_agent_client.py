"""The client of the agent's socket, and answers that lead nowhere."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest

from spurproc.agent.cli.agent_lines import AgentLines
from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.service.replies import Done, JobList
from spurproc.errors import WaitTimeout
from spurproc.proto.codec import encode


def test_an_empty_page_is_the_last() -> None:
    """Whatever it says itself."""
    client = AgentClient.__new__(AgentClient)
    client._lines = SimpleNamespace(ask=lambda *_: JobList(jobs=(), more=True))  # type: ignore[assignment]
    assert list(client.jobs()) == []


def test_a_wait_of_many_years_is_one() -> None:
    """A socket takes no such time limit, and one of more than 24 days it takes for another."""
    ours, its = socket.socketpair()
    with its:
        lines = AgentLines(ours, "here", 1.0)
        its.sendall(encode(Done()) + b"\n")
        assert lines.received(time.monotonic() + 10**6 * 86400) == Done()
        with pytest.raises(WaitTimeout):
            lines.received(time.monotonic() + 0.01)
        lines.close()
