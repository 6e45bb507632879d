"""Rows 1 to 5 of the protocol: a folder that says what to run, published; a supervisor for it; and the word to start."""

from __future__ import annotations

import errno
import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socketpair
from contextlib import ExitStack, suppress

from spurproc.client.connection import StepConnection
from spurproc.client.host_link import HostLink
from spurproc.client.spec import StepSpec
from spurproc.client.step import Step
from spurproc.core.durable.journal import Journal
from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import InvalidArgument, SystemCallError
from spurproc.proto.codec import encode
from spurproc.proto.launch_record import LAUNCH_NAME, LaunchRecord
from spurproc.proto.messages import Launch, Welcome
from spurproc.proto.step_folder import NEW_PREFIX, StateFolder, StepFolder

__all__ = ["launch"]


def launch(spec: StepSpec, state_dir: str | os.PathLike[str], *, start: bool = True, timeout_s: float = 30.0) -> Step:
    """Launch a supervised step, and return once its leader was exec'd or its end is recorded, whichever comes first.

    The step outlives its launcher, whatever becomes of that. `start` false: it stands ready, and runs once `Step.start` says so.
    A leader that does not start is no error here: that is the step's end, NOT_STARTED, with the reason. After `timeout_s` a step
    whose start blocks is returned as it is, and goes on.

    Raises InvalidArgument for a step that exists, and SystemCallError and the like for what cannot be made: then nothing is left.
    """
    record = spec.record()
    with ExitStack() as undo:
        state = StateFolder.open(state_dir, create=True)
        undo.callback(state.close)
        step, lock = _publish(state, record)
        undo.callback(step.close)
        connection = _hand_to_host(state, step, lock)
        undo.callback(connection.close)
        step.folder.sync_above()
        connection.expect(Welcome)
        launched = Step(state, step, connection)
        undo.pop_all()
    if start:
        launched.start()
        launched.confirm(timeout_s)
    return launched


def _publish(state: StateFolder, record: LaunchRecord) -> tuple[StepFolder, FolderLock]:
    """Rows 1 and 2, but for the fsync of the folder above, which may overlap what follows."""
    name = str(record.runtime_id)
    folder = state.runtime.create_folder(f"{NEW_PREFIX}{name}-{os.urandom(4).hex()}")
    try:
        lock = _first_lock(folder)
        _write_launch(folder, encode(record))
        return StepFolder(_renamed(state, folder, name), record.runtime_id), lock
    except BaseException:
        _discard(folder)
        raise


def _first_lock(folder: PrivateFolder) -> FolderLock:
    lock = FolderLock.take(folder, create=True)
    if lock is None:
        raise InvalidArgument(f"cannot launch into {folder.path!r}: it is in use")
    return lock


def _write_launch(folder: PrivateFolder, content: bytes) -> None:
    fd = folder.create_file(LAUNCH_NAME, content)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    Journal.create(folder)
    os.fsync(folder.fileno())


def _renamed(state: StateFolder, folder: PrivateFolder, name: str) -> PrivateFolder:
    runtime_fd = state.runtime.fileno()
    try:
        # Never over another: rename(2) of a folder refuses one that is not empty, and a published one never is.
        os.rename(os.path.basename(folder.path), name, src_dir_fd=runtime_fd, dst_dir_fd=runtime_fd)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise InvalidArgument(f"cannot launch step {name}: it exists") from None
        raise SystemCallError(error.errno or 0, f"cannot publish step {name}: {error.strerror}") from None
    folder.path = f"{state.runtime.path}/{name}"
    return folder


def _discard(folder: PrivateFolder) -> None:
    with suppress(SystemCallError):
        for name in folder.names():
            folder.discard_file(name)
        folder.remove()
    folder.close()


def _hand_to_host(state: StateFolder, step: StepFolder, lock: FolderLock) -> StepConnection:
    """Row 3: sent once, and our copies are closed before anything is waited for. Closed, never unlocked."""
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    try:
        link = HostLink.open(state)
        try:
            link.send(Launch(runtime_id=step.runtime_id), (step.folder.fileno(), lock.fileno(), theirs.fileno()))
        finally:
            link.close()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        lock.close()
    connection = StepConnection(ours, step.runtime_id)
    connection.subscribed = True
    return connection
