"""How much a peer may take of the agent: bytes, connections, time. What is for one user is taken from no other."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.errors import SpurprocError

__all__ = ["Bounds", "TooMuch", "large_message_bytes"]

_ARGUMENTS_BYTES = 8 << 20
"""More than execve(2) takes of arguments and environment, as JSON has them."""


class TooMuch(SpurprocError):
    """More than a peer may take. The connection ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Times are seconds."""

    small_bytes: int = 1 << 16
    """A message up to this size is read whenever it comes; of larger ones each user has one at a time."""
    hello_within_s: float = 10.0
    message_within_s: float = 30.0
    """From its first byte to its last."""
    idle_s: float = 300.0
    """Without a request."""
    taken_within_s: float = 30.0
    """A reply, by the peer."""
    answered_within_s: float = 2.0
    """What is being carried out when the service ends."""
    connections_of_user: int = 64
    connections: int = 1024
    """Of all users but root."""


def large_message_bytes(script_limit_bytes: int) -> int:
    """The longest message there can be: a script in base64, and what else a job has."""
    return (script_limit_bytes + 2) // 3 * 4 + _ARGUMENTS_BYTES
