"""Peers of a Unix socket: who listens for them, and who they are, as the kernel vouches for it. unix(7)"""

from __future__ import annotations

import errno
import os
import select
import struct
from _socket import AF_UNIX, SO_PEERCRED, SOCK_CLOEXEC, SOCK_NONBLOCK, SOL_SOCKET, socket
from collections.abc import Callable
from typing import Any

from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.stepd.loop import Loop

__all__ = ["Listener"]

_CREDENTIALS = struct.Struct("=iII")
_STARVED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AGAIN_S = 1.0


class Listener:
    """Listens under a name in a held folder. `on_peer` owns what it is given: peers of our own user, or root, and no others."""

    def __init__(self, loop: Loop, kind: int, backlog: int, on_peer: Callable[[socket], None]) -> None:
        self._loop = loop
        self._kind = kind
        self._backlog = backlog
        self._on_peer = on_peer
        self._socket: socket | None = None

    def bind(self, folder: PrivateFolder, name: str) -> None:
        """Listen from now on, however long the path. What stands under the name is replaced in one act.

        One that listened already goes on until the new one does. Raises SystemCallError.
        """
        with named_errors("listen in", f"the folder {folder.path!r}"):
            listener = socket(AF_UNIX, self._kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
            temporary = f".{name}.{os.urandom(4).hex()}"
            try:
                listener.bind(f"/proc/self/fd/{folder.fileno()}/{temporary}")
                listener.listen(self._backlog)
                os.rename(temporary, name, src_dir_fd=folder.fileno(), dst_dir_fd=folder.fileno())
            except BaseException:
                listener.close()
                folder.discard_file(temporary)
                raise
        self.close()
        self._socket = listener
        self._watch()

    def _watch(self) -> None:
        if self._socket is not None:
            self._loop.watch(self._socket.fileno(), select.EPOLLIN, self._accept)

    def _accept(self, _: int) -> None:
        if self._socket is None:
            return
        try:
            # Of the class below `socket.socket`, which alone is loaded here: its accept() has another name and no type.
            accepted: Any = self._socket
            fd: int = accepted._accept()[0]  # noqa: SLF001
        except OSError as error:
            if error.errno in _STARVED:  # it stays in the backlog, and would be told of again at once
                self._loop.forget(self._socket.fileno())
                self._loop.at("listen again", _AGAIN_S, self._watch)
            return
        peer = socket(AF_UNIX, self._kind, 0, fd)
        if is_ours(peer):
            self._on_peer(peer)
        else:
            peer.close()

    def close(self) -> None:
        """Listen no more. May be called twice."""
        listener, self._socket = self._socket, None
        self._loop.cancel("listen again")
        if listener is not None:
            self._loop.forget(listener.fileno())
            listener.close()


def is_ours(end: socket) -> bool:
    """Whether the peer was our own user, or root, when it connected. SO_PEERCRED"""
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid in (0, os.geteuid()))
