"""What is said to the agent and heard from it, a line at a time and within a time; what it refuses is raised."""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import TypeVar, cast

from spurproc.agent.cli.failure import AgentRefused, AgentUnreachable
from spurproc.agent.service.replies import Refusal, Refused, Reply
from spurproc.agent.service.requests import Request
from spurproc.command_line.escape import escaped
from spurproc.errors import (
    AlreadyGone,
    Busy,
    InvalidArgument,
    NotPermitted,
    RecordInvalid,
    SpurprocError,
    Unsupported,
    WaitTimeout,
)
from spurproc.proto.codec import decode, encode

__all__ = ["AgentLines"]

R = TypeVar("R", bound=Reply)
_READ_BYTES = 1 << 18
_REPLY_LIMIT_BYTES = 64 << 20
_LOOK_S = 86400.0
"""A socket counts the milliseconds of a time limit in an int."""


class AgentLines:
    """One connection. Owns its socket."""

    def __init__(self, end: socket.socket, where: str, timeout_s: float) -> None:
        """Takes `end`. `where`: how the agent was reached, for people; `timeout_s`: for each answer that is asked for."""
        self._end = end
        self._where = where
        self._answer = f"the answer of the agent at {where!r}"
        self._timeout_s = timeout_s
        self._bytes = bytearray()

    @property
    def has_read_ahead(self) -> bool:
        """Whether something was read that was not asked for yet: no poll of the socket tells of it."""
        return bool(self._bytes)

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._end.fileno()

    def close(self) -> None:
        """Let go. May be called twice."""
        self._end.close()

    def ask(self, request: Request, kind: type[R]) -> R:
        """Its answer, which has to be of this kind. Raises AgentUnreachable, RecordInvalid, and what it refuses."""
        self.send(request)
        try:
            reply = self.received(time.monotonic() + self._timeout_s)
        except WaitTimeout as error:
            raise AgentUnreachable(str(error)) from None
        if not isinstance(reply, kind):
            raise self.odd(reply)
        return reply

    def send(self, request: Request) -> None:
        """Say it, and wait for no answer. Raises AgentUnreachable."""
        self._end.settimeout(self._timeout_s)
        try:
            self._end.sendall(_encoded(request))
        except TimeoutError:
            raise AgentUnreachable(str(self._silent())) from None
        except OSError:
            return  # it has hung up, and most likely has said why

    def received(self, deadline: float) -> Reply:
        """The next that it says. Raises WaitTimeout at `deadline`, a monotonic time; else as `ask`."""
        reply = decode(self._line(deadline), cast("type[Reply]", Reply), self._answer)
        if isinstance(reply, Refused):
            raise _error_of(reply)
        return reply

    def odd(self, reply: object) -> RecordInvalid:
        """What to raise where that was no answer."""
        return RecordInvalid(self._answer, f"{type(reply).__name__} is none to what was asked")

    def _line(self, deadline: float) -> bytes:
        while (end := self._bytes.find(b"\n")) < 0:
            if len(self._bytes) > _REPLY_LIMIT_BYTES:
                raise RecordInvalid(self._answer, f"it has more than {_REPLY_LIMIT_BYTES} bytes")
            self._bytes += self._some(deadline)
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        return line

    def _some(self, deadline: float) -> bytes:
        """None of it where the deadline is far off, and nothing has come yet."""
        left_s = deadline - time.monotonic()
        self._end.settimeout(max(0.001, min(left_s, _LOOK_S)))
        try:
            content = self._end.recv(_READ_BYTES)
        except TimeoutError:
            if left_s > _LOOK_S:
                return b""
            raise self._silent() from None
        except OSError as error:
            raise self._hung_up(os.strerror(error.errno or 0)) from None
        if not content:
            raise self._hung_up("it hung up")
        return content

    def _silent(self) -> WaitTimeout:
        return WaitTimeout(f"the agent at {self._where!r} has not answered in time")

    def _hung_up(self, why: str) -> AgentUnreachable:
        return AgentUnreachable(f"cannot ask the agent at {self._where!r}: {why}; ask again once it is there", comes_back=True)


def _encoded(request: Request) -> bytes:
    """Raises InvalidArgument for a word that JSON has no form for: one with a byte that is no UTF-8."""
    try:
        return encode(request) + b"\n"
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"'{escaped(error.object)}' is not UTF-8, which what is told to the agent has to be") from None


def _error_of(refused: Refused) -> SpurprocError:
    match refused.kind:
        case Refusal.NOT_PERMITTED:
            return NotPermitted(errno.EPERM, refused.why)
        case Refusal.NOT_FOUND:
            return AlreadyGone(errno.ENOENT, refused.why)
        case Refusal.INVALID:
            return InvalidArgument(refused.why)
        case Refusal.UNSUPPORTED:
            return Unsupported(refused.why)
        case Refusal.BUSY:
            return Busy(errno.EAGAIN, refused.why)
        case _:
            return AgentRefused(refused.why)
