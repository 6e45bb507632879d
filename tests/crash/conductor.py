"""The test's side of the points: who stands where, and what is to become of it. One thread, and no time but bounds."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.pidfds import open_pidfd

_CREDENTIALS = struct.Struct("=iII")
_MESSAGE_BYTES = 4096
_TURN_MS = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A point as a part of one scene: by whom, inside which act, the how-manieth time."""

    role: str
    act: str
    when: str
    point: str
    nth: int = 1

    def __str__(self) -> str:
        within = "" if self.act in ("", self.point) else f" in {self.act}"
        again = "" if self.nth == 1 else f" ({self.nth})"
        return f"{self.role}, {self.when} {self.point}{within}{again}"


@dataclass(frozen=True, slots=True)
class Stand:
    """A process that stands at a place, and waits for a word."""

    place: Place
    kind: str
    step: str
    pid: int


@dataclass(slots=True)
class Peer:
    """A process of the matrix: held by its pidfd since it first spoke, so that it cannot be taken for another."""

    line: socket.socket
    pid: int
    pidfd: int
    role: str = ""
    step: str = ""

    @property
    def ended(self) -> bool:
        """A zombie, or gone."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Let go."""
        self.line.close()
        os.close(self.pidfd)


Rule = Callable[[Stand], str | None]


def let_go(_: Stand) -> str | None:
    """The rule of a run that nothing happens to."""
    return "go"


@dataclass(slots=True)
class Conductor:
    """`rule` says what each that stands at a point is told; None: it stays there, and is `held`.

    `watched`: the points at which the rule may say anything but "go"; None: any.
    """

    name: str
    rule: Rule = let_go
    passed: list[Stand] = field(default_factory=list)
    held: Stand | None = None
    watched: frozenset[str] | None = None
    peers: list[Peer] = field(default_factory=list)
    _listener: socket.socket = field(init=False)
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind("\0" + self.name)
        self._listener.listen(64)

    def begin(self, rule: Rule, watched: frozenset[str] | None = None) -> None:
        """Another run: what was passed before is forgotten."""
        self.rule, self.watched, self.held = rule, watched, None
        self.passed.clear()
        self._counts.clear()

    def until(self, fact: Callable[[], bool], timeout_s: float, *also: int) -> bool:
        """Serve until `fact` holds; False: it does not, after `timeout_s`. `also`: what may make it true when it is readable."""
        deadline = time.monotonic() + timeout_s
        while not fact():
            if time.monotonic() > deadline:
                return False
            self.turn(_TURN_MS, *also)
        return True

    def turn(self, wait_ms: int, *also: int) -> None:
        """Hear who has something to say, for at most `wait_ms`."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        lines = {peer.line.fileno(): peer for peer in self.peers if peer.line.fileno() >= 0}
        for fd in (*lines, *also):
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(wait_ms):
            if fd == self._listener.fileno():
                self._accept()
            elif fd in lines:
                self._hear(lines[fd])

    def _accept(self) -> None:
        line, _ = self._listener.accept()
        pid, _, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        try:
            pidfd = open_pidfd(pid)
        except ProcessLookupError:
            line.close()
            return
        self.peers.append(Peer(line, pid, pidfd))

    def _hear(self, peer: Peer) -> None:
        """All that has come from it."""
        while content := self._received(peer):
            said = json.loads(content)
            peer.role, peer.step = said["role"], said["step"] if said["role"] != "host" else ""
            stand = self._stand(said, peer.pid)
            self.passed.append(stand)
            if said["waits"]:
                self._answer(peer, stand)

    @staticmethod
    def _received(peer: Peer) -> bytes:
        try:
            content = peer.line.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""
        except OSError:
            content = b""
        if not content:
            peer.line.close()
        return content

    def _answer(self, peer: Peer, stand: Stand) -> None:
        answer = self.rule(stand)
        if answer is None:
            self.held = stand
        elif stand.step and self.watched is not None:
            self._tell(peer, "\n".join((answer, *self.watched)))
        else:
            self._tell(peer, answer)

    def _stand(self, said: dict[str, str], pid: int) -> Stand:
        where = (said["role"], said["act"], said["when"], said["point"])
        self._counts[said["step"], *where] += 1
        return Stand(Place(*where, self._counts[said["step"], *where]), said["kind"], said["step"], pid)

    @staticmethod
    def _tell(peer: Peer, answer: str) -> None:
        try:
            peer.line.send(answer.encode())
        except OSError:
            peer.line.close()

    def release(self, answer: str = "go") -> None:
        """Who is held is told, if it still lives."""
        held, self.held = self.held, None
        for peer in self.peers:
            if held is not None and peer.pid == held.pid and peer.line.fileno() >= 0:
                self._tell(peer, answer)

    def living(self, role: str, step: str = "") -> list[Peer]:
        """The processes of that role that have not ended; supervisors and launchers of `step`."""
        return [peer for peer in self.peers if peer.role == role and peer.step == step and not peer.ended]

    def forget_ended(self) -> None:
        """Let go of those that have ended."""
        for peer in [peer for peer in self.peers if peer.ended]:
            peer.close()
            self.peers.remove(peer)

    def close(self) -> None:
        """Let go of everybody."""
        for peer in self.peers:
            peer.close()
        self._listener.close()
