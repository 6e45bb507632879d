"""A job's script where it is run from: `spool/<job>.<attempt>/script`, a copy of what was submitted that nobody can change.

The folder is the agent's, 0711, so only the agent can put something there; the script is its user's, 0500, and run by its first
line. Where the agent is root its user could give himself the right to write to it, and would only change his own job.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import time
from contextlib import suppress

from spurproc.agent.jobs.removal import remove_below
from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import InvalidArgument, NotPermitted
from spurproc.proto.attempt_id import AttemptId

__all__ = ["SCRIPT_NAME", "remove_spool", "spooled", "write_script"]

SCRIPT_NAME = "script"
_NEW_NAME = "script.new"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_MODE = 0o711
_SCRIPT_MODE = 0o500
_OTHERS_WRITE = 0o022
_WRITER_WITHIN_S = 2.0
_LOOK_MS = 1


def write_script(spool: PrivateFolder, attempt: AttemptId, script: bytes, *, uid: int, gid: int, sync: bool = True) -> str:
    """Copy it for this attempt; its path. All of it is there or nothing, and after a power cut too. Blocks for the disk.

    Once more for the same attempt is fine, as after a crash. `sync` false leaves out the fsyncs: for who has the script in a
    store, and writes it again after a power cut, when nothing runs from it. Raises NotPermitted where somebody else's folder is
    in its place, SystemCallError and the like.
    """
    where = f"{spool.path}/{attempt}"
    with named_errors("write", f"{where}/{SCRIPT_NAME}"):
        folder_fd = _open_folder(spool.fileno(), str(attempt), where)
        try:
            _put(folder_fd, script, (uid, gid), sync=sync)
            if sync:
                os.fsync(folder_fd)
                _sync_names(spool.fileno())
        finally:
            os.close(folder_fd)
    return f"{where}/{SCRIPT_NAME}"


def remove_spool(spool: PrivateFolder, attempt: AttemptId) -> None:
    """Remove it, with whatever is in it. One that is not there is fine. Raises SystemCallError and the like."""
    remove_below(spool, str(attempt))


def spooled(spool: PrivateFolder) -> tuple[list[AttemptId], list[str]]:
    """The attempts that have one, in order, and every other name that stands there."""
    attempts, others = [], []
    for name in spool.names():
        try:
            attempts.append(AttemptId.parse(name))
        except InvalidArgument:
            others.append(name)
    return sorted(attempts), sorted(others)


def _open_folder(spool_fd: int, name: str, where: str) -> int:
    """The attempt's folder, made if there is none; the caller owns the descriptor."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=spool_fd)
    fd = os.open(name, _FOLDER, dir_fd=spool_fd)
    try:
        _check_ours(os.fstat(fd), where)
        os.fchmod(fd, _FOLDER_MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_ours(facts: os.stat_result, where: str) -> None:
    if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS_WRITE:
        raise NotPermitted(errno.EPERM, f"cannot trust the folder {where!r}: not a folder of ours that only we may write")


def _put(folder_fd: int, script: bytes, owner: tuple[int, int], *, sync: bool) -> None:
    """Whole under its name, or not at all. It is ours alone until nobody writes to it, and its user's only then."""
    with suppress(FileNotFoundError):
        os.unlink(_NEW_NAME, dir_fd=folder_fd)
    _write_new(folder_fd, script)
    fd = os.open(_NEW_NAME, _READ, dir_fd=folder_fd)
    try:
        _await_no_writer(fd)
        os.fchown(fd, *owner)
        if sync:
            os.fsync(fd)
        os.rename(_NEW_NAME, SCRIPT_NAME, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    finally:
        os.close(fd)


def _write_new(folder_fd: int, script: bytes) -> None:
    fd = os.open(_NEW_NAME, _CREATE, 0o600, dir_fd=folder_fd)
    try:
        view = memoryview(script)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, _SCRIPT_MODE)
    finally:
        os.close(fd)


def _await_no_writer(fd: int) -> None:
    """Until nobody has it open for writing, for an exec of it would be refused (ETXTBSY).

    Whoever forked while we wrote holds a copy of our descriptor until its child has exec'd: milliseconds. A read lease is given
    only where there is no writer. Source: fcntl(2), "Leases". Where a file system has none the exec itself tries again.
    """
    deadline = time.monotonic() + _WRITER_WITHIN_S
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # for who breaks a lease the default, SIGIO, would end us
    while not _leased(fd) and time.monotonic() < deadline:
        select.poll().poll(_LOOK_MS)
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _leased(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return False
    except OSError:
        return True  # there are none here
    return True


def _sync_names(spool_fd: int) -> None:
    fd = os.open(".", _FOLDER, dir_fd=spool_fd)  # the folder may be held by a descriptor that cannot be synced
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
