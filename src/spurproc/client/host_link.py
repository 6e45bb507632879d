"""The way to the host of a state folder: to the one that runs, or to one that is started now."""

from __future__ import annotations

import errno
import os
import select
import shutil
import sys
from _socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SOCK_CLOEXEC,
    SOCK_NONBLOCK,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)
from array import array
from collections.abc import Generator, Sequence
from contextlib import closing

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.deadline import deadline_after, has_passed, left_s
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.recorded.watch import Watch, wait_for
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
_LET_IN_WITHIN_S = 10.0
_LOOK_S = 0.05
_TRIES = 5


class HostLink:
    """A connection to a host. Owns its socket."""

    def __init__(self, end: socket) -> None:
        """Takes `end`. See `open`."""
        self._socket = end

    @classmethod
    def open(cls, state: StateFolder) -> HostLink:
        """Connect to the host of this release, which is started if there is none. Raises Unsupported where it cannot be found."""
        with closing(cls.opening(state)) as steps:
            try:
                while True:
                    wait_for(next(steps))
            except StopIteration as end:
                link: HostLink = end.value
                return link

    @classmethod
    def opening(cls, state: StateFolder) -> Generator[Watch, None, HostLink]:
        """As `open`, for who waits in another way: what to wait for next, until it returns the link."""
        with open_host_folder(state) as folder:
            for _ in range(_TRIES):
                end = yield from _connecting(folder)
                if end is not None:
                    return cls(end)
                yield from _starting(state)
        raise Unsupported(f"cannot reach a host for {state.path!r}: each that was started has ended at once")

    def send(self, request: HostRequest, fds: Sequence[int] = ()) -> None:
        """One request, with the descriptors that belong to it. Raises SystemCallError."""
        rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([encode(request)], rights, MSG_NOSIGNAL)
        except OSError as error:
            raise from_errno(error.errno or 0, "ask", "the host") from None

    def receive(self) -> bytes | None:
        """What it has said; empty once it is gone, None when there is nothing yet. Does not block."""
        try:
            return self._socket.recv(MESSAGE_LIMIT_BYTES, MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def fileno(self) -> int:
        """The socket; borrowed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go. May be called twice."""
        self._socket.close()


def _connecting(folder: PrivateFolder) -> Generator[Watch, None, socket | None]:
    """None where nobody listens. Whoever waits in another way is not held up by a host that lets nobody in, for it hangs."""
    deadline = deadline_after(_LET_IN_WITHIN_S)
    while True:
        try:
            return _connected(folder)
        except BlockingIOError:  # all who may wait there do
            if has_passed(deadline):
                raise from_errno(errno.EAGAIN, "reach", f"the host in {folder.path!r}, which lets nobody in") from None
        yield Watch(entries=(), timeout_s=_LOOK_S)


def _connected(folder: PrivateFolder) -> socket | None:
    end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
    try:
        end.connect(host_address(folder))
        end.setblocking(True)
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


def _starting(state: StateFolder) -> Generator[Watch, None, None]:
    """Detached, in the cgroup for supervisors; over once it can be reached, or has found that another one is."""
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            _spawn(state, ready_write)
        finally:
            os.close(ready_write)
        deadline = deadline_after(_START_WITHIN_S)
        while not _is_readable(ready_read):
            if has_passed(deadline):
                reason = f"it is not ready after {_START_WITHIN_S:g} s"
                raise SystemCallError(errno.ETIMEDOUT, f"cannot start a host for {state.path!r}: {reason}")
            yield Watch(entries=((ready_read, select.POLLIN),), timeout_s=left_s(deadline))
    finally:
        os.close(ready_read)


def _spawn(state: StateFolder, ready_fd: int) -> None:
    root = find_cgroup_root()
    cgroup = None if root is None else Cgroup.open(root.supervisors)
    facts = os.fstat(state.folder.fileno())  # it opens the path, where another folder may stand by then
    try:
        inode = f"{facts.st_dev}:{facts.st_ino}"
        argv = [_program(), "--state-dir", state.path, "--folder-inode", inode, "--ready-fd", str(ready_fd)]
        spawn(SpawnPlan(argv=argv, cwd="/", pass_fds=(ready_fd,), cgroup=cgroup, detach=True)).pidfd.close()
    finally:
        if cgroup is not None:
            cgroup.close()


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
