"""A peer on the socket of a host, without the client."""

from __future__ import annotations

import array
import os
import select
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from spurproc.proto.codec import encode
from spurproc.proto.messages import HostRequest
from spurproc.version import VERSION

_WITHIN_S = 60.0


class HostPeer:
    """A connection. Owns its socket."""

    def __init__(self, state_dir: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder_fd = os.open(state_dir / f"host-{VERSION}", os.O_PATH)
        try:
            self.socket.connect(f"/proc/self/fd/{folder_fd}/host.sock")
        except BaseException:
            self.socket.close()
            raise
        finally:
            os.close(folder_fd)

    def say(self, request: HostRequest | bytes, fds: Sequence[int] = ()) -> None:
        """One packet."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([request if isinstance(request, bytes) else encode(request)], rights)

    def hear(self) -> bytes:
        """The next packet; empty once it was hung up."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(_WITHIN_S * 1000):
            raise TimeoutError("the host says nothing")
        try:
            return self.socket.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
