"""A connection to the supervisor of one step."""

from __future__ import annotations

import errno
import select
import struct
from _socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SO_SNDTIMEO, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, socket
from collections import deque
from contextlib import suppress
from typing import Self

from spurproc.client.place import OpenedStep
from spurproc.core.deadline import deadline_after, left_s, poll_ms
from spurproc.errors import Busy, NotPermitted, RecordInvalid, WaitTimeout, from_errno
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

__all__ = ["Gone", "StepConnection", "refusal", "verb_of"]

_HELLO_WITHIN_S = 5.0
_ANSWER_WITHIN_S = 30.0
_READ_BYTES = 1 << 16
_EVENTS = (Started, StateChanged, Ended, Completed)
"""Nobody asked for them."""
_NOBODY = (errno.ECONNREFUSED, errno.ENOENT, errno.EAGAIN)
"""EAGAIN: its backlog is full and stays so."""


class Gone(Exception):
    """Nobody answers: what is known stands in the records. Never leaves this package."""


class StepConnection:
    """Requests one at a time; events that come in between wait. Owns its socket."""

    def __init__(self, end: socket, runtime_id: RuntimeId) -> None:
        """Takes `end`."""
        self._socket = end
        self._lines = LineBuffer(f"an answer of step {runtime_id}")
        self._replies: deque[Reply] = deque()
        self.runtime_id = runtime_id

    @classmethod
    def connect(cls, step: StepFolder, capability: str, within_s: float = _HELLO_WITHIN_S) -> StepConnection:
        """Connect and say Hello; its answer is not waited for. Raises Gone where nobody listens."""
        end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
        connection = cls(end, step.runtime_id)
        try:
            whole_s = int(within_s)
            end.setsockopt(SOL_SOCKET, SO_SNDTIMEO, struct.pack("@ll", whole_s, int((within_s - whole_s) * 1e6) or 1))
            end.connect(step.socket_address())
            connection.send(Hello(runtime_id=step.runtime_id, capability=capability))
        except OSError as error:
            end.close()
            if error.errno in _NOBODY:
                raise Gone from None
            raise from_errno(error.errno or 0, "reach", f"the supervisor of step {step.runtime_id}") from None
        except BaseException:
            end.close()
            raise
        return connection

    @classmethod
    def open(cls, opened: OpenedStep, within_s: float | None = None) -> StepConnection:
        """Connect, and be let in. Raises Gone where nobody answers within that, 5 s by default: nobody listens, or it hangs."""
        within_s = _HELLO_WITHIN_S if within_s is None else within_s
        connection = cls.connect(opened.step, opened.launch.capability, within_s)
        try:
            answer = connection.expect(Welcome, within_s)
        except WaitTimeout:
            connection.close()
            raise Gone from None
        except BaseException:
            connection.close()
            raise
        if isinstance(answer, Refused):
            connection.close()
            raise NotPermitted(errno.EPERM, f"cannot reach step {opened.runtime_id}: its supervisor refuses: {answer.why}")
        return connection

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._socket.fileno()

    def ask(self, request: Request) -> Reply:
        """The answer, a refusal too. Raises Gone, and WaitTimeout."""
        self.send(request)
        try:
            return self.expect()
        except WaitTimeout:
            why = f"its supervisor does not answer within {_ANSWER_WITHIN_S:g} s, and may still do it"
            raise WaitTimeout(f"cannot {verb_of(request)} step {self.runtime_id}: {why}") from None

    def send(self, request: Request) -> None:
        """Without waiting for an answer. Raises Gone."""
        try:
            self._socket.sendall(encode(request) + b"\n", MSG_NOSIGNAL)
        except OSError:
            raise Gone from None

    def expect(self, kind: type | None = None, within_s: float = _ANSWER_WITHIN_S) -> Reply:
        """The next message that is no event, of that kind or a refusal; events are dropped. Raises Gone, and WaitTimeout."""
        deadline = deadline_after(within_s)
        while True:
            reply = self.next_message(left_s(deadline))
            if isinstance(reply, _EVENTS):
                continue
            if kind is not None and not isinstance(reply, kind | Refused):
                raise RecordInvalid(f"an answer of step {self.runtime_id}", f"not what was asked for: {reply!r:.100}")
            return reply

    def next_message(self, timeout_s: float | None) -> Reply:
        """The next message of any kind. Raises Gone, and WaitTimeout."""
        deadline = deadline_after(timeout_s)
        while not self._replies:
            poll = select.poll()
            poll.register(self._socket.fileno(), select.POLLIN)
            if not poll.poll(poll_ms(left_s(deadline))):
                raise WaitTimeout(f"step {self.runtime_id}: its supervisor says nothing in time")
            self.take_in()
        return self._replies.popleft()

    def await_gone(self, timeout_s: float) -> None:
        """Until it hangs up, at most so long. What it still says is dropped."""
        deadline = deadline_after(timeout_s)
        with suppress(Gone, WaitTimeout):
            while left_s(deadline):
                self.next_message(left_s(deadline))

    def messages(self) -> list[Reply]:
        """What has come by now and was not handed out yet."""
        found = list(self._replies)
        self._replies.clear()
        return found

    def take_in(self) -> None:
        """Read what has come by now, without waiting. Raises Gone at its end."""
        try:
            content = self._socket.recv(_READ_BYTES, MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            raise Gone
        where = f"an answer of step {self.runtime_id}"
        self._replies.extend(decode(line, Reply, where) for line in self._lines.feed(content))  # type: ignore[arg-type]  # a union

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def verb_of(request: Request) -> str:
    """What is asked for, for a message."""
    return str(type(request).__struct_config__.tag)


def refusal(request: Request, refused: Refused) -> Busy | NotPermitted:
    """The exception for a refusal: Busy where the step's state forbids it just now."""
    what = f"cannot {verb_of(request)} step {request.runtime_id}: {refused.why}"
    return NotPermitted(errno.EPERM, what) if refused.state is None else Busy(errno.EBUSY, what)
