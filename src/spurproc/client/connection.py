"""A connection to the supervisor of one step."""

from __future__ import annotations

import select
from _socket import AF_UNIX, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_STREAM, socket
from collections import deque

from spurproc.core.deadline import deadline_after, left_s, poll_ms
from spurproc.errors import Busy, NotPermitted, RecordInvalid, WaitTimeout
from spurproc.proto.codec import decode, encode
from spurproc.proto.framing import LineBuffer
from spurproc.proto.messages import (
    Completed,
    Ended,
    Hello,
    Refused,
    Reply,
    Request,
    Started,
    StateChanged,
    Welcome,
)
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import StepFolder

__all__ = ["Gone", "StepConnection"]

_ANSWER_WITHIN_S = 30.0
_READ_BYTES = 1 << 16
_EVENTS = (Started, StateChanged, Ended, Completed)


class Gone(Exception):
    """Nobody answers: what is known stands in the records."""


class StepConnection:
    """Requests one at a time; events that come in between wait. Owns its socket."""

    def __init__(self, end: socket, runtime_id: RuntimeId) -> None:
        """Takes `end`."""
        self._socket = end
        self._lines = LineBuffer(f"an answer of step {runtime_id}")
        self._replies: deque[Reply] = deque()
        self.runtime_id = runtime_id
        self.subscribed = False

    @classmethod
    def open(cls, step: StepFolder) -> StepConnection:
        """Connect, and be let in. Raises Gone where nobody listens."""
        end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
        try:
            end.connect(step.socket_address())
            connection = cls(end, step.runtime_id)
            connection.send(Hello(runtime_id=step.runtime_id, capability=step.launch().capability))
            connection.expect(Welcome)
        except (ConnectionRefusedError, FileNotFoundError):
            end.close()
            raise Gone from None
        except BaseException:
            end.close()
            raise
        return connection

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._socket.fileno()

    def ask(self, request: Request) -> Reply:
        """The answer to a request. Raises Gone, and Busy or NotPermitted where it is refused, with the supervisor's reason."""
        self.send(request)
        return self.expect()

    def send(self, request: Request) -> None:
        """Without waiting for an answer. Raises Gone."""
        try:
            self._socket.sendall(encode(request) + b"\n", MSG_NOSIGNAL)
        except OSError:
            raise Gone from None

    def expect(self, kind: type | None = None) -> Reply:
        """The next message that is no event; events before it stay for `next_event`."""
        deadline = deadline_after(_ANSWER_WITHIN_S)
        while True:
            for place, reply in enumerate(self._replies):
                if not isinstance(reply, _EVENTS):
                    del self._replies[place]
                    return _checked(reply, kind)
            self._receive(left_s(deadline))

    def next_event(self, timeout_s: float | None) -> Reply:
        """The next message of any kind. Raises Gone, and WaitTimeout."""
        deadline = deadline_after(timeout_s)
        while not self._replies:
            self._receive(left_s(deadline))
        return self._replies.popleft()

    def _receive(self, timeout_s: float | None) -> None:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        if not poll.poll(poll_ms(timeout_s)):
            raise WaitTimeout(f"step {self.runtime_id} says nothing in time")
        self.take_in()

    def take_in(self) -> None:
        """What has come by now. Raises Gone at its end."""
        try:
            content = self._socket.recv(_READ_BYTES)
        except OSError:
            content = b""
        if not content:
            raise Gone
        where = f"an answer of step {self.runtime_id}"
        self._replies.extend(decode(line, Reply, where) for line in self._lines.feed(content))  # type: ignore[arg-type]  # a union

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()


def _checked(reply: Reply, kind: type | None) -> Reply:
    if isinstance(reply, Refused):
        if reply.state is None:
            raise NotPermitted(1, f"the supervisor refuses: {reply.why}")
        raise Busy(16, f"the supervisor refuses: {reply.why}")
    if kind is not None and not isinstance(reply, kind):
        raise RecordInvalid("an answer", f"not what was asked for: {reply!r:.100}")
    return reply
