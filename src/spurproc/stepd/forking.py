"""A supervisor out of its host: the fork, and what the child has to let go of before it is one."""

from __future__ import annotations

import fcntl
import gc
import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socket, socketpair
from dataclasses import dataclass

import prctl

from spurproc.core.cgroup.root import CgroupRoot
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.process.identity import ProcessIdentity, keep_reader, reader
from spurproc.core.spawn.program import program_fd
from spurproc.errors import SpurprocError
from spurproc.proto.step_folder import StepFolder
from spurproc.stepd.supervisor import Supervisor
from spurproc.stepd.surroundings import Surroundings

__all__ = ["ForkRequest", "Forked", "fork_supervisor"]

_LOCK_WITHIN_S, _MOVED_WITHIN_S = 5.0, 1.0
_FD_LIMIT = 1 << 20
_GAVE_UP = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Which step, and what its supervisor takes along; all borrowed. `lock_fd` and `connection_fd` are -1 for a successor."""

    step: StepFolder
    host: ProcessIdentity
    root: CgroupRoot | None
    lock_fd: int = -1
    connection_fd: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """The host's hold on a supervisor, its child.

    The number is the supervisor's until it is reaped here. `channel` is the end on which it hands its leader over; end of file
    there is its death, for no other process keeps a copy.
    """

    pid: int
    channel: socket


def fork_supervisor(request: ForkRequest) -> Forked:
    """Fork a supervisor. The caller owns what is returned. Raises OSError where there is no room for another process."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)
    gc.freeze()  # what is there now is never looked at again, so that its pages stay shared
    here = reader()
    pid = os.fork()
    if pid == 0:
        if os.getppid() == request.host.pid:  # else it may be in another pid namespace; exec(2) has settled that of time
            keep_reader(here)
        _become(request, theirs)
    theirs.close()
    ours.setblocking(False)
    return Forked(pid=pid, channel=ours)


def _become(request: ForkRequest, channel: socket) -> None:
    """Never returns: whatever the host has on its stack is not ours to unwind."""
    status = _GAVE_UP
    try:
        os.setsid()
        keep = [*request.step.folder.filenos(), request.lock_fd, request.connection_fd, channel.fileno(), program_fd()]
        _close_all_but(keep)
        prctl.set_name(f"spurstepd {request.step.runtime_id}"[:15])
        prctl.set_proctitle(f"spurstepd: step {request.step.runtime_id}")
        prctl.set_child_subreaper(1)
        os.umask(0o077)
        _supervise(request, channel)
        status = 0
    finally:
        os._exit(status)


def _close_all_but(keep: list[int]) -> None:
    """A listener or a connection that stays open in a supervisor would answer for a host that is gone."""
    first = 3
    for fd in sorted(fd for fd in keep if fd >= first):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _FD_LIMIT)


def _supervise(request: ForkRequest, channel: socket) -> None:
    step = request.step
    lock = _own_lock(step.folder, request.lock_fd)
    if lock is None or not step.folder.is_named():
        return
    connection = None if request.connection_fd < 0 else socket(AF_UNIX, 1, 0, request.connection_fd)
    surroundings = Surroundings(
        step=step,
        lock=lock,
        host=request.host,
        host_channel=channel,
        root=request.root,
        connection=connection,
    )
    try:
        supervisor = Supervisor(surroundings, step.launch())
    except SpurprocError:
        return
    if request.lock_fd >= 0 and supervisor.is_concluded:
        return  # while the lock was moved: what is owed is a successor's
    supervisor.run()


def _own_lock(folder: PrivateFolder, passed_fd: int) -> FolderLock | None:
    """The step's lock on an open file description of our own: a fork of the launcher may hold the one that it passed on.

    Freed and taken anew within microseconds. Who gets in between and only looks is waited for; who stays has won, and this
    supervisor gives up; and so it does where an end was recorded meanwhile.
    """
    if passed_fd < 0:
        return FolderLock.take_within(folder, _LOCK_WITHIN_S)
    fcntl.flock(passed_fd, fcntl.LOCK_UN)
    os.close(passed_fd)
    return FolderLock.take_within(folder, _MOVED_WITHIN_S)
