"""A peer on the control socket of a step, without the client: well behaved or not."""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spurproc.client.host_link import HostLink
from spurproc.client.step import Step
from spurproc.proto.codec import decode, encode
from spurproc.proto.messages import Hello, Reply, Request, StateChanged, Status, StatusReply, Subscribe, TakeOver, Welcome
from spurproc.proto.step_folder import StateFolder
from spurproc.proto.step_state import StepState

_WITHIN_S = 60.0


def capability_of(step: Step) -> str:
    """What only those know who may read its folder."""
    with StateFolder.open(step.state_dir) as state, state.open_step(step.runtime_id) as folder:
        return folder.launch().capability


class StepPeer:
    """A connection. Owns its socket."""

    def __init__(self, step: Step) -> None:
        """Connects, and says nothing yet."""
        self.step = step
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._rest = b""
        folder_fd = os.open(Path(step.state_dir, "runtime", str(step.runtime_id)), os.O_PATH)
        try:
            self.socket.connect(f"/proc/self/fd/{folder_fd}/control.sock")
        except BaseException:
            self.socket.close()
            raise
        finally:
            os.close(folder_fd)

    def greet(self) -> Self:
        """Say who we are, and be let in."""
        self.say(Hello(runtime_id=self.step.runtime_id, capability=capability_of(self.step)))
        assert isinstance(self.hear(), Welcome)
        return self

    def say(self, request: Request | bytes) -> None:
        """One message, or whatever bytes."""
        self.socket.sendall(request if isinstance(request, bytes) else encode(request) + b"\n")

    def hear(self) -> Reply:
        """The next message. Raises EOFError when it was hung up."""
        while b"\n" not in self._rest:
            self._rest += self._some()
        line, _, self._rest = self._rest.partition(b"\n")
        kind: Any = Reply
        reply: Reply = decode(line, kind, "a reply")
        return reply

    def wait_hung_up(self) -> bytes:
        """Until the other side has closed; what it said before that."""
        said = self._rest
        try:
            while True:
                said += self._some()
        except (EOFError, ConnectionResetError):
            return said

    def _some(self) -> bytes:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(_WITHIN_S * 1000):
            raise TimeoutError("the supervisor says nothing")
        content = self.socket.recv(65536)
        if not content:
            raise EOFError("the supervisor has hung up")
        return content

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def wait_taken_over(step: Step) -> None:
    """Until it has a supervisor again, after one that died. The host answers once it has forked one, which then has to listen."""
    until_then = time.monotonic() + _WITHIN_S
    while time.monotonic() < until_then:
        with StateFolder.open(step.state_dir) as state:
            link = HostLink.open(state)
            link.send(TakeOver(runtime_id=step.runtime_id))
            select.select([link.fileno()], [], [], _WITHIN_S)
            link.close()
        with suppress(ConnectionRefusedError), StepPeer(step):
            return
    raise TimeoutError(f"nobody supervises {step!r}")


def until(step: Step, state: StepState) -> StatusReply:
    """Wait until it is in `state`; what it says of itself then."""
    with StepPeer(step).greet() as peer:
        peer.say(Subscribe(runtime_id=step.runtime_id))
        while True:
            heard = peer.hear()
            if isinstance(heard, StatusReply | StateChanged) and heard.state is state:
                break
    with StepPeer(step).greet() as peer:
        peer.say(Status(runtime_id=step.runtime_id))
        answer = peer.hear()
        assert isinstance(answer, StatusReply)
        return answer
