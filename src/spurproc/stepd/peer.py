"""Peers of a Unix socket, as the kernel vouches for them. unix(7)"""

from __future__ import annotations

import os
import struct
from _socket import SO_PEERCRED, SOL_SOCKET, socket
from typing import Any

__all__ = ["accept", "is_ours"]

_CREDENTIALS = struct.Struct("=iII")


def accept(listener: Any) -> int:
    """The next connection's descriptor, close-on-exec, which the caller owns. Raises OSError where there is none.

    Of the class below `socket.socket`, which alone is loaded here: its accept() has another name and no type.
    """
    fd: int = listener._accept()[0]  # noqa: SLF001
    return fd


def is_ours(end: socket) -> bool:
    """Whether the peer was our own user, or root, when it connected. SO_PEERCRED"""
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid in (0, os.geteuid()))
