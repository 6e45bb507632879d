"""The way to the host of a state folder: to the one that runs, or to one that is started now."""

from __future__ import annotations

import os
import select
import shutil
import sys
from _socket import AF_UNIX, MSG_NOSIGNAL, SCM_RIGHTS, SOCK_CLOEXEC, SOCK_SEQPACKET, SOL_SOCKET, socket
from array import array
from collections.abc import Sequence
from contextlib import suppress

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.deadline import deadline_after, left_s, poll_ms
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.spawn.plan import SpawnPlan
from spurproc.core.spawn.spawn import spawn
from spurproc.errors import SystemCallError, Unsupported, from_errno
from spurproc.proto.codec import encode
from spurproc.proto.framing import MESSAGE_LIMIT_BYTES
from spurproc.proto.host_folder import host_address, open_host_folder
from spurproc.proto.messages import HostRequest
from spurproc.proto.step_folder import StateFolder

__all__ = ["PROGRAM_VARIABLE", "HostLink"]

PROGRAM_VARIABLE = "SPURPROC_STEPD"
"""Environment variable: the program to start as the host. Else `spurstepd` beside the running Python, then on PATH."""
_START_WITHIN_S = 30.0
_TRIES = 5


class HostLink:
    """A connection to a host. Owns its socket."""

    def __init__(self, end: socket) -> None:
        """Takes `end`. See `open`."""
        self._socket = end

    @classmethod
    def open(cls, state: StateFolder) -> HostLink:
        """Connect to the host of this release, which is started if there is none. Raises Unsupported where it cannot be found."""
        with open_host_folder(state) as folder:
            for _ in range(_TRIES):
                end = _connected(folder)
                if end is not None:
                    return cls(end)
                _start(state)
        raise Unsupported(f"cannot reach a host for {state.path!r}: each that was started has ended at once")

    def send(self, request: HostRequest, fds: Sequence[int] = ()) -> None:
        """One request, with the descriptors that belong to it. Raises SystemCallError."""
        rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([encode(request)], rights, MSG_NOSIGNAL)
        except OSError as error:
            raise from_errno(error.errno or 0, "ask", "the host") from None

    def receive(self, timeout_s: float | None) -> bytes | None:
        """What it says; empty once it is gone, None when it says nothing in time."""
        deadline = deadline_after(timeout_s)
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        if not poll.poll(poll_ms(left_s(deadline))):
            return None
        with suppress(OSError):
            return self._socket.recv(MESSAGE_LIMIT_BYTES)
        return b""

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()


def _connected(folder: PrivateFolder) -> socket | None:
    end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)
    try:
        end.connect(host_address(folder))
    except (ConnectionRefusedError, FileNotFoundError):
        end.close()
        return None
    except BaseException:
        end.close()
        raise
    return end


def _program() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "spurstepd")
    found = os.environ.get(PROGRAM_VARIABLE) or (beside if os.access(beside, os.X_OK) else shutil.which("spurstepd"))
    if not found:
        raise Unsupported(f"cannot find spurstepd: neither {beside!r} nor on PATH; install spurproc[stepd]")
    return found


def _start(state: StateFolder) -> None:
    """Detached, in the cgroup for supervisors, and back once it can be reached, or has found that another one is."""
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    root = find_cgroup_root()
    cgroup = None if root is None else Cgroup.open(root.supervisors)
    try:
        argv = [_program(), "--state-dir", state.path, "--ready-fd", str(ready_write)]
        spawned = spawn(SpawnPlan(argv=argv, cwd="/", pass_fds=(ready_write,), cgroup=cgroup, detach=True))
        spawned.pidfd.close()
        os.close(ready_write)
        ready_write = -1
        _await(ready_read, state.path)
    finally:
        for fd in (ready_read, ready_write):
            if fd >= 0:
                os.close(fd)
        if cgroup is not None:
            cgroup.close()


def _await(ready_fd: int, path: str) -> None:
    poll = select.poll()
    poll.register(ready_fd, select.POLLIN)
    if not poll.poll(_START_WITHIN_S * 1000):
        raise SystemCallError(110, f"cannot start a host for {path!r}: it is not ready after {_START_WITHIN_S:g} s")
