"""The way to the agent's socket: however long its path, and to nobody but root or our own user."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct

from spurproc.agent.cli.failure import AgentUnreachable
from spurproc.errors import NotPermitted

__all__ = ["open_agent_socket"]

_CREDENTIALS = struct.Struct("=iII")
_TIMEVAL = struct.Struct("@ll")
_NOBODY_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED)
_START = "start it with `spurd serve`, or name another one by --state-dir or --socket"


def open_agent_socket(where: str, timeout_s: float) -> socket.socket:
    """A connection to who listens there; the caller owns it. Raises AgentUnreachable, NotPermitted."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _reach(end, where, timeout_s)
        _check_server(end, where)
    except BaseException:
        end.close()
        raise
    return end


def _reach(end: socket.socket, where: str, timeout_s: float) -> None:
    """Through its folder, held: so the path may be longer than an address. unix(7)"""
    whole = max(0.001, timeout_s)
    # A full queue is waited for by connect(2) itself, as long as that. unix(7), socket(7): SO_SNDTIMEO
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(whole), int(whole % 1 * 1e6)))
    try:
        folder_fd = os.open(os.path.dirname(where), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            end.connect(f"/proc/self/fd/{folder_fd}/{os.path.basename(where)}")
        finally:
            os.close(folder_fd)
    except OSError as error:
        why = f"cannot reach the agent at {where!r}: {_why_unreachable(error, where)}"
        raise AgentUnreachable(why, comes_back=error.errno in _NOBODY_THERE) from None


def _why_unreachable(error: OSError, where: str) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"there is no socket; {_START}"
        case errno.ECONNREFUSED if not _is_socket(where):
            return "what stands there is no socket; name another one by --state-dir or --socket"
        case errno.ECONNREFUSED:
            return f"nobody listens there; {_START}"
        case errno.EACCES | errno.EPERM:
            return f"user {os.geteuid()} may not pass its folder, or not use it"
        case errno.EAGAIN:
            return "it takes no connection; it is stopped, or too busy"
        case _:
            return os.strerror(error.errno or 0)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return True  # it is about to come or to go


def _check_server(end: socket.socket, where: str) -> None:
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid not in (0, os.geteuid()):
        raise NotPermitted(errno.EPERM, f"cannot trust the agent at {where!r}: it is user {uid}'s; only that user may ask it")
