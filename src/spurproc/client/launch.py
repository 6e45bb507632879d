"""Rows 1 to 5 of the protocol: a folder that says what to run, published; a supervisor for it; and the word to start."""

from __future__ import annotations

import errno
import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket, socketpair
from collections.abc import Callable
from contextlib import closing, suppress

from spurproc.client.connection import Gone, StepConnection
from spurproc.client.host_link import HostLink
from spurproc.client.place import StepPlace, step_errors
from spurproc.client.removal import delete_folder
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.client.withdrawal import failure_of, withdraw_unsent, withdrawn
from spurproc.core.deadline import checked_seconds, deadline_after, left_s
from spurproc.core.durable.journal import Journal
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder, named_errors
from spurproc.errors import InvalidArgument, LaunchedBefore, SpurprocError, SystemCallError, WaitTimeout
from spurproc.proto.codec import encode
from spurproc.proto.launch_record import LAUNCH_NAME, LaunchRecord
from spurproc.proto.messages import Completed, Ended, Launch, Refused, Start, Started, Terminate, Welcome
from spurproc.proto.step_folder import NEW_PREFIX, StateFolder, StepFolder

__all__ = ["launch"]

_READY_WITHIN_S = 30.0
_LOCK_WITHIN_S = 5.0


def launch(
    spec: StepSpec,
    state_dir: str | os.PathLike[str],
    *,
    start: bool = True,
    timeout_s: float = 30.0,
    folder_inode: tuple[int, int] | None = None,
    before_start: Callable[[], None] | None = None,
) -> Step:
    """Launch a supervised step, and return once its leader was exec'd or its end is recorded, whichever comes first.

    The step outlives its launcher, whatever becomes of that. `start` false: it stands ready, and runs once `Step.start` says so.
    A leader that does not start is no error here: that is the step's end, NOT_STARTED, with the reason. After `timeout_s` a step
    whose start blocks is returned as it is, and goes on. `folder_inode`: device and inode of the state folder that is
    meant; where another stands by now, or none, nothing is made. Without, one that is missing is made, its last part only.
    `before_start`: called once it stands ready, for what has to be durable before anything runs; what it raises is raised here.

    Raises InvalidArgument for a step that exists, LaunchedBefore for one that did, as its host knows, NotPermitted for another
    state folder than the one meant, AlreadyGone where that is gone, and SystemCallError, Unsupported and the like for what
    cannot be made. Nothing is left then, unless the message says that the step can still be adopted: where a supervisor might
    be at work on it.
    """
    checked_seconds("timeout_s", timeout_s)
    record = spec.record()
    with step_errors(record.runtime_id), StateFolder.open(state_dir, create=folder_inode is None, inode=folder_inode) as state:
        step, lock = _publish(state, record)
        with step, closing(lock), _handed_over(state, step, lock, before_start) as connection:
            if start:
                _start(connection, timeout_s)
            return Step(StepPlace(state.path, record.runtime_id, record.capability))


def _publish(state: StateFolder, record: LaunchRecord) -> tuple[StepFolder, FolderLock]:
    """Rows 1 and 2, but for the fsync of the folder above, which may overlap what follows."""
    name = str(record.runtime_id)
    folder = state.runtime.create_folder(f"{NEW_PREFIX}{name}-{os.urandom(4).hex()}")
    lock = None
    try:
        lock = _first_lock(folder)
        _write_launch(folder, encode(record))
        return StepFolder(_renamed(state, folder, name), record.runtime_id), lock
    except BaseException:
        with suppress(SystemCallError):
            delete_folder(folder)
        folder.close()
        if lock is not None:
            lock.close()
        raise


def _first_lock(folder: PrivateFolder) -> FolderLock:
    """A reader that finds the file before we have its lock may be quicker: it is waited for."""
    lock = FolderLock.take_within(folder, _LOCK_WITHIN_S, create=True)
    if lock is None:
        raise InvalidArgument(f"cannot launch into {folder.path!r}: it is in use")
    return lock


def _write_launch(folder: PrivateFolder, content: bytes) -> None:
    fd = folder.create_file(LAUNCH_NAME, content)
    try:
        with named_errors("write", f"{folder.path}/{LAUNCH_NAME}"):
            os.fsync(fd)
    finally:
        os.close(fd)
    Journal.create(folder)
    with named_errors("fsync", f"the folder {folder.path!r}"):
        os.fsync(folder.fileno())


def _renamed(state: StateFolder, folder: PrivateFolder, name: str) -> PrivateFolder:
    runtime_fd = state.runtime.fileno()
    try:
        # Never over another: rename(2) of a folder refuses one that is not empty, and a published one never is.
        os.rename(os.path.basename(folder.path), name, src_dir_fd=runtime_fd, dst_dir_fd=runtime_fd)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise InvalidArgument(f"cannot launch step {name}: it exists in {state.path!r}") from None
        raise SystemCallError(error.errno or 0, f"cannot publish step {name}: {error.strerror}") from None
    folder.path = f"{state.runtime.path}/{name}"
    return folder


def _handed_over(state: StateFolder, step: StepFolder, lock: FolderLock, ready: Callable[[], None] | None) -> StepConnection:
    """Rows 3 and 4: a connection to its supervisor, which is ready. Whatever fails, the step is withdrawn if that may be.

    Until it is sent the lock is ours, and nobody knows of it. After that it may be anybody's.
    """
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    connection = StepConnection(ours, step.runtime_id)
    try:
        _send(state, step, lock, theirs)
        try:
            _await_ready(connection, step)
            if ready is not None:
                ready()
        except Gone:
            raise withdrawn(state, step, _without_supervisor(step)) from None
        except SpurprocError as failure:
            _ask_to_end(connection)
            raise withdrawn(state, step, failure) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _send(state: StateFolder, step: StepFolder, lock: FolderLock, theirs: socket) -> None:
    """Sent once, and our copies are closed before anything is waited for."""
    try:
        with closing(HostLink.open(state)) as link:
            link.send(Launch(runtime_id=step.runtime_id), (step.folder.fileno(), lock.fileno(), theirs.fileno()))
    except BaseException:
        withdraw_unsent(state, step)
        raise
    finally:
        theirs.close()
        lock.hand_over()


def _ask_to_end(connection: StepConnection) -> None:
    """A supervisor that may be there: it has no leader yet, and gives up. What it says is not waited for."""
    with suppress(Gone):
        connection.send(Terminate(runtime_id=connection.runtime_id))


def _without_supervisor(step: StepFolder) -> SpurprocError:
    """It has ended without a word; perhaps its records say why."""
    with suppress(SpurprocError):
        end = step.history().end
        if end is not None:
            return failure_of(end)
    return SystemCallError(errno.ECONNRESET, "its supervisor, or the host that was to fork it, has ended")


def _await_ready(connection: StepConnection, step: StepFolder) -> None:
    """Row 4, and the rest of row 2: the intent is durable before anything is started."""
    step.folder.sync_above()
    while not isinstance(message := connection.next_message(_READY_WITHIN_S), Welcome):
        if isinstance(message, Ended | Completed):
            raise failure_of(message.end)
        if isinstance(message, Refused):
            words = f"the host refuses: {message.why}"
            raise LaunchedBefore(errno.EBUSY, words) if message.launched_before else SystemCallError(errno.EAGAIN, words)


def _start(connection: StepConnection, timeout_s: float) -> None:
    """Row 5; then until the leader was exec'd, or how it ended is recorded.

    Once it stands ready nothing is a failure to launch: an adopter may have been quicker, a supervisor that dies leaves records.
    """
    deadline = deadline_after(timeout_s)
    with suppress(WaitTimeout, Gone):
        connection.send(Start(runtime_id=connection.runtime_id))
        while not isinstance(connection.next_message(left_s(deadline)), Started | Ended | Completed | Refused):
            continue
