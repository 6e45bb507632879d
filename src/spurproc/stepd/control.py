"""The control socket of one step: who may speak, how much, how fast. What is said is somebody else's business.

Peers are told apart by the kernel: another uid than ours is turned away before a byte is read (unix(7), SO_PEERCRED); then the
first line has to be Hello with this very step's id and capability.
"""

from __future__ import annotations

import select
from _socket import MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_STREAM, socket
from collections.abc import Callable
from contextlib import suppress

from spurproc.errors import RecordInvalid
from spurproc.proto.codec import PROTOCOL_VERSION, decode, encode
from spurproc.proto.framing import LineBuffer
from spurproc.proto.messages import Hello, Refused, Reply, Request
from spurproc.proto.runtime_id import RuntimeId
from spurproc.proto.step_folder import SOCKET_NAME, StepFolder
from spurproc.stepd.loop import Loop
from spurproc.stepd.peer import Listener

__all__ = ["Connection", "ControlSocket"]

_BACKLOG = 64
_CONNECTIONS_MOST = 64
_READ_BYTES = 1 << 16
_UNSENT_MOST_BYTES = 1 << 18
_HELLO_WITHIN_S = 10.0
_Answer = Callable[["Connection", Request], Reply | None]


class Connection:
    """One peer. Owns its socket. Closed as soon as it says what it must not, or does not take what it is told."""

    def __init__(self, end: socket, control: ControlSocket) -> None:
        end.setblocking(False)
        self._socket = end
        self._control = control
        self._lines = LineBuffer("a request")
        self._unsent = b""
        self.greeted = False
        self.hears: tuple[type, ...] = ()
        """The kinds of events that it is told of."""

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._socket.fileno()

    def receive(self) -> list[bytes] | None:
        """The whole lines that came; None when the peer is gone. Raises RecordInvalid for a line without end."""
        try:
            content = self._socket.recv(_READ_BYTES, MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._lines.feed(content) if content else None

    def send(self, reply: Reply) -> bool:
        """Tell the peer; what it does not take at once is kept, up to a bound. False: it takes nothing any more."""
        self._unsent += encode(reply) + b"\n"
        return self.flush()

    def flush(self) -> bool:
        """Send what is kept."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent, MSG_NOSIGNAL | MSG_DONTWAIT) :]
        except BlockingIOError:
            return len(self._unsent) <= _UNSENT_MOST_BYTES
        except OSError:
            return False
        return True

    @property
    def waits_to_send(self) -> bool:
        """Whether something is kept."""
        return bool(self._unsent)

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()


class ControlSocket:
    """The listener and its connections. `answer` is asked for a reply to each request of a peer that was let in."""

    def __init__(self, loop: Loop, runtime_id: RuntimeId, capability: str, answer: _Answer) -> None:
        self._loop = loop
        self._runtime_id = runtime_id
        self._capability = capability
        self._answer = answer
        self._listener = Listener(loop, SOCK_STREAM, _BACKLOG, self._let_in)
        self._connections: dict[int, Connection] = {}

    def bind(self, step: StepFolder) -> None:
        """Listen in the step's folder, in place of what stands under the name there. Raises SystemCallError."""
        self._listener.bind(step.folder, SOCKET_NAME)

    def take(self, end: socket) -> Connection:
        """Serve a connection that was made for us, by one who holds the step's folder. Takes `end`."""
        connection = Connection(end, self)
        self._connections[connection.fileno()] = connection
        self._watch(connection)
        return connection

    def tell(self, event: Reply) -> None:
        """Tell all who hear of its kind."""
        for connection in list(self._connections.values()):
            if isinstance(event, connection.hears):
                self._send(connection, event)

    def _let_in(self, end: socket) -> None:
        if not self._has_room():
            end.close()
            return
        connection = self.take(end)
        self._loop.at(f"hello {connection.fileno()}", _HELLO_WITHIN_S, lambda: self._drop(connection))

    def _has_room(self) -> bool:
        """The one that has been silent for longest makes room, after a last look at whether it has spoken."""
        for connection in list(self._connections.values()):
            if len(self._connections) < _CONNECTIONS_MOST:
                break
            if not connection.greeted:
                self._ready(connection, select.EPOLLIN)
            if not connection.greeted:
                self._drop(connection)
        return len(self._connections) < _CONNECTIONS_MOST

    def _watch(self, connection: Connection) -> None:
        events = select.EPOLLIN | (select.EPOLLOUT if connection.waits_to_send else 0)
        self._loop.watch(connection.fileno(), events, lambda events: self._ready(connection, events))

    def _ready(self, connection: Connection, events: int) -> None:
        if events & select.EPOLLOUT and not connection.flush():
            self._drop(connection)
            return
        try:
            lines = connection.receive()
            if lines is None:
                self._drop(connection)
                return
            for line in lines:
                if connection.fileno() < 0:
                    return
                self._take_request(connection, line)
        except RecordInvalid as error:
            self._refuse(connection, error.reason)
            return
        if connection.fileno() >= 0:
            self._watch(connection)

    def _take_request(self, connection: Connection, line: bytes) -> None:
        request: Request = decode(line, Request, "a request")  # type: ignore[arg-type]  # a union
        if request.runtime_id != self._runtime_id:
            self._refuse(connection, f"this is step {self._runtime_id}, not {request.runtime_id}")
        elif isinstance(request, Hello):
            self._greet(connection, request)
        elif not connection.greeted:
            self._refuse(connection, "the first message has to be hello")
        elif (reply := self._answer(connection, request)) is not None:
            self._send(connection, reply)

    def _greet(self, connection: Connection, hello: Hello) -> None:
        if hello.capability != self._capability:
            self._refuse(connection, "it does not know the step's capability")
        elif not 1 <= hello.v <= PROTOCOL_VERSION + 1:
            self._refuse(connection, f"its version is {hello.v}, and this is {PROTOCOL_VERSION}")
        else:
            connection.greeted = True
            self._loop.cancel(f"hello {connection.fileno()}")
            reply = self._answer(connection, hello)
            if reply is not None:
                self._send(connection, reply)

    def _send(self, connection: Connection, reply: Reply) -> None:
        if not connection.send(reply):
            self._drop(connection)
        elif connection.waits_to_send:
            self._watch(connection)

    def _refuse(self, connection: Connection, why: str) -> None:
        connection.send(Refused(why=why))
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        fd = connection.fileno()
        if fd >= 0:
            self._loop.cancel(f"hello {fd}")
            self._loop.forget(fd)
            del self._connections[fd]
            connection.close()

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        self._listener.close()
        for connection in list(self._connections.values()):
            with suppress(OSError):
                self._drop(connection)
