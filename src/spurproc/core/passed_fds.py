"""Descriptors that come over a socket. unix(7), SCM_RIGHTS"""

from __future__ import annotations

from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket
from array import array

__all__ = ["receive_fds"]

_FD_BYTES = array("i").itemsize


def receive_fds(end: socket, most_bytes: int, most_fds: int) -> tuple[bytes, list[int]]:
    """What one recvmsg(2) gives, and the descriptors that came with it, close-on-exec; the caller owns them.

    Those that this process has no room for are lost on their way, the last ones first, and so are those beyond `most_fds`; but
    of an odd number the kernel lets one more pass, for it counts the padding.
    """
    content, control, _, _ = end.recvmsg(most_bytes, CMSG_SPACE(most_fds * _FD_BYTES), MSG_CMSG_CLOEXEC)
    fds = array("i")
    for level, kind, rights in control:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            fds.frombytes(rights[: len(rights) - len(rights) % _FD_BYTES])
    return content, list(fds)
