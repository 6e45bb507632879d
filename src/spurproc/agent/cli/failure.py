"""What can go wrong between a command and its agent, and no other class stands for."""

from __future__ import annotations

from spurproc.errors import SpurprocError

__all__ = ["AgentRefused", "AgentUnreachable", "Interrupted"]


class AgentUnreachable(SpurprocError):
    """No agent answered, or it hung up: what was asked may or may not have been done.

    `comes_back`: as of one that is being started again; whoever waits anyhow may ask again.
    """

    def __init__(self, message: str, *, comes_back: bool = False) -> None:
        super().__init__(message)
        self.comes_back = comes_back


class AgentRefused(SpurprocError):
    """The agent did not do it, for a reason that no other class stands for."""


class Interrupted(SpurprocError):
    """Whoever waited wants to no more. The job goes on."""
