"""How much a peer may take of the agent: bytes, connections, time. What is for one user is taken from no other."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.agent.jobs.job_spec import STRINGS_LAST
from spurproc.errors import SpurprocError

__all__ = ["Bounds", "TooMuch", "check_strings", "large_message_bytes"]

_ARGUMENTS_BYTES = 8 << 20
"""More than execve(2) takes of arguments and environment, as JSON has them."""


class TooMuch(SpurprocError):
    """More than a peer may take. The connection ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Times are seconds."""

    small_bytes: int = 1 << 16
    """A message up to this size is read whenever it comes; of larger ones each user has one at a time."""
    strings: int = STRINGS_LAST + 1024
    """In a message: what a job may have, and the names of fields. Decoded, each takes time of all, however short it is."""
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
    lasting_of_user: int = 56
    """Of these, who wait for a job or have a reservation: who wants an answer at once gets in beside them."""
    connections: int = 1024
    """Of all users but root."""


def large_message_bytes(script_limit_bytes: int) -> int:
    """The longest message there can be: a script in base64, and what else a job has."""
    return (script_limit_bytes + 2) // 3 * 4 + _ARGUMENTS_BYTES


def check_strings(message: bytes, last: int) -> None:
    """Raise TooMuch for a message of more strings than so many, or nearly so: before it is decoded.

    Counts the quotes around them. What ends in an escaped backslash seems to have one quote: there may be twice as many.
    """
    quotes = message.count(b'"') - message.count(b'\\"')
    if quotes > 2 * last:
        raise TooMuch(f"a message has more than {last} strings")
