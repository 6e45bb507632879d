"""The socket of a host: one request a packet, with the descriptors that belong to it."""

from __future__ import annotations

import os
import select
from _socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SOCK_CLOEXEC,
    SOCK_NONBLOCK,
    SOCK_SEQPACKET,
    socket,
)
from collections.abc import Callable
from contextlib import suppress

from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.passed_fds import receive_fds
from spurproc.errors import RecordInvalid
from spurproc.proto.codec import decode, encode
from spurproc.proto.framing import MESSAGE_LIMIT_BYTES
from spurproc.proto.host_folder import HOST_SOCKET_NAME, host_address
from spurproc.proto.messages import HostReply, HostRequest, Refused
from spurproc.stepd.loop import Loop
from spurproc.stepd.peer import Listener

__all__ = ["HostSocket", "Peer", "tell_host"]

_BACKLOG = 256
_PEERS_MOST = 256
_FDS_MOST = 3
"""For a launch; a packet with more is taken without any."""


class Peer:
    """One connection. Owns its socket."""

    def __init__(self, end: socket) -> None:
        end.setblocking(False)
        self._socket = end
        self.has_asked = False

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._socket.fileno()

    def receive(self) -> tuple[bytes, list[int]] | None:
        """One packet and its descriptors, which the caller owns; empty at the end, None when there is none yet."""
        try:
            return receive_fds(self._socket, MESSAGE_LIMIT_BYTES, _FDS_MOST)
        except BlockingIOError:
            return None
        except OSError:
            return b"", []

    def tell(self, reply: HostReply) -> None:
        """What it does not take at once is lost: it asked, and is expected to read."""
        with suppress(OSError):
            self._socket.send(encode(reply), MSG_NOSIGNAL | MSG_DONTWAIT)

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()


class HostSocket:
    """The listener and its peers. `on_request` owns the descriptors that it is given; `on_left` hears of a peer that is gone."""

    def __init__(
        self,
        loop: Loop,
        on_request: Callable[[Peer, HostRequest, list[int]], None],
        on_left: Callable[[Peer], None],
    ) -> None:
        self._loop = loop
        self._on_request = on_request
        self._on_left = on_left
        self._listener = Listener(loop, SOCK_SEQPACKET, _BACKLOG, self._let_in)
        self._peers: dict[int, Peer] = {}

    def listen(self, folder: PrivateFolder) -> None:
        """From here on it is found. Whoever holds the folder's lock may replace what stands under the socket's name."""
        self._listener.bind(folder, HOST_SOCKET_NAME)

    @property
    def quiet(self) -> bool:
        """Whether nobody is connected."""
        return not self._peers

    def _let_in(self, end: socket) -> None:
        if not self._has_room():
            end.close()
            return
        peer = Peer(end)
        self._peers[peer.fileno()] = peer
        self._loop.watch(peer.fileno(), select.EPOLLIN, lambda _: self._ready(peer))

    def _has_room(self) -> bool:
        """The one that has been silent for longest makes room, after a last look at whether it has asked for something."""
        for peer in list(self._peers.values()):
            if len(self._peers) < _PEERS_MOST:
                break
            if not peer.has_asked:
                self._ready(peer)
            if not peer.has_asked:
                self._drop(peer)
        return len(self._peers) < _PEERS_MOST

    def _ready(self, peer: Peer) -> None:
        received = peer.receive()
        if received is None:
            return
        content, fds = received
        try:
            if not content:
                raise RecordInvalid("a request", "the peer is gone")  # noqa: TRY301 - as any other that is none
            request: HostRequest = decode(content, HostRequest, "a request")  # type: ignore[arg-type]  # a union
        except RecordInvalid as error:
            for fd in fds:
                os.close(fd)
            if content:
                peer.tell(Refused(why=error.reason))
            self._drop(peer)
            return
        peer.has_asked = True
        self._on_request(peer, request, fds)

    def _drop(self, peer: Peer) -> None:
        fd = peer.fileno()
        if fd < 0:
            return
        self._loop.forget(fd)
        del self._peers[fd]
        peer.close()
        self._on_left(peer)


def tell_host(folder: PrivateFolder, request: HostRequest) -> None:
    """One request to the host of `folder`, if there is one."""
    with suppress(OSError):
        end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
        try:
            end.connect(host_address(folder))
            end.send(encode(request), MSG_NOSIGNAL)
        finally:
            end.close()
