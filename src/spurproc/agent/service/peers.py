"""Who is at the other end, as the kernel vouches for it. Source: unix(7), SO_PEERCRED; net/core/sock.c, SO_PEERGROUPS (4.13)."""

from __future__ import annotations

import array
import asyncio
import errno
import pwd
import socket
import struct
import time
from dataclasses import dataclass

__all__ = ["Peer", "UserNames", "peer_of"]

_CREDENTIALS = struct.Struct("=iII")
_SO_PEERGROUPS = 59
"""asm-generic/socket.h; of x86-64 and arm64."""
_PYTHONS_LIMIT_BYTES = 1024
_GROUPS_BYTES = 65536 * 4
"""NGROUPS_MAX of them."""
_LOOKED_UP_WITHIN_S = 3.0
_KNOWN_FOR_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A process when it connected. `groups` are its supplementary ones, as it had them: not what a database says it may have."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...]


def peer_of(end: socket.socket) -> Peer:
    """Who connected. Raises OSError."""
    pid, uid, gid = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return Peer(pid=pid, uid=uid, gid=gid, groups=_groups_of(end))


def _groups_of(end: socket.socket) -> tuple[int, ...]:
    """Almost nobody is in so many that Python's own call, which takes 1024 bytes at most, would not do."""
    try:
        content = end.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _PYTHONS_LIMIT_BYTES)
    except OSError as error:
        if error.errno != errno.ERANGE:
            raise
        content = _many_groups_of(end)
    groups = array.array("I")
    groups.frombytes(content)
    return tuple(groups)


def _many_groups_of(end: socket.socket) -> bytes:
    import ctypes  # noqa: PLC0415 - see above

    buffer, size = ctypes.create_string_buffer(_GROUPS_BYTES), ctypes.c_uint32(_GROUPS_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(end.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS, buffer, ctypes.byref(size)) != 0:
        raise OSError(ctypes.get_errno(), "getsockopt")
    return buffer.raw[: size.value]


class UserNames:
    """Names of users, looked up off the event loop and kept for a while: the database may be a service that does not answer."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, asyncio.Future[str]]] = {}

    async def name_of(self, uid: int) -> str:
        """Its name; the number as text where it has none, or nobody says so in time."""
        now = time.monotonic()
        asked_at, found = self._known.get(uid, (0.0, None))
        if found is None or now - asked_at > _KNOWN_FOR_S:
            self._known = {each: entry for each, entry in self._known.items() if now - entry[0] <= _KNOWN_FOR_S}
            found = asyncio.ensure_future(asyncio.to_thread(_looked_up, uid))
            self._known[uid] = (now, found)
        try:
            async with asyncio.timeout(_LOOKED_UP_WITHIN_S):
                return await asyncio.shield(found)
        except TimeoutError:
            return str(uid)


def _looked_up(uid: int) -> str:
    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return str(uid)
    return name if name.isprintable() and "/" not in name and name else str(uid)
